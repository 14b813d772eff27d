-- What began after which version or deployment: stalls in the 3 days after it, and the 14 before.
-- by_chance: how many such rows chance alone brings among all that were tested, at most (Chernoff).
WITH known AS (
  SELECT cluster, topic, subscription, version, min(connected) AS t
  FROM lives WHERE version IS NOT NULL GROUP BY cluster, topic, subscription, version
), came AS (
  SELECT *, lag(version) OVER (PARTITION BY cluster, topic, subscription ORDER BY t) AS earlier
  FROM known
), renewed AS (
  SELECT cluster, topic, subscription, version, min(connected) AS t
  FROM lives WHERE connected IS NOT NULL
  GROUP BY cluster, topic, subscription, version, floor(connected / 600)
  HAVING count(DISTINCT name) > 1
), brokers AS (
  SELECT cluster, broker_version AS version, min(began) AS t
  FROM spans WHERE broker_version IS NOT NULL GROUP BY cluster, broker_version
), watched AS (
  SELECT cluster, min(began) AS t0, max(last_seen) AS t1 FROM spans GROUP BY cluster
), changed AS (
  SELECT 'client version' AS what, cluster, topic, subscription, version, t
  FROM came WHERE earlier IS NOT NULL
  UNION ALL
  SELECT 'deployment', r.cluster, r.topic, r.subscription, r.version, r.t
  FROM renewed r LEFT JOIN known k ON k.cluster = r.cluster AND k.topic = r.topic
    AND k.subscription = r.subscription AND k.version = r.version AND k.t >= r.t - 600
  WHERE k.t IS NULL
  UNION ALL
  SELECT 'broker version', b.cluster, s.topic, s.subscription, b.version, b.t
  FROM brokers b JOIN (SELECT DISTINCT cluster, topic, subscription FROM spans) s
    ON s.cluster = b.cluster
), windowed AS (
  SELECT c.*, least(14, (c.t - w.t0) / 86400) AS before_days,
    least(3, (w.t1 - c.t) / 86400) AS after_days
  FROM changed c JOIN watched w ON w.cluster = c.cluster
  WHERE c.t > w.t0 + 43200 AND c.t < w.t1
), counted AS (
  SELECT c.what, c.cluster, c.topic, c.subscription, c.version, c.t,
    max(c.before_days) AS before_days, max(c.after_days) AS after_days,
    sum(CASE WHEN e.began < c.t THEN 1 ELSE 0 END) AS before_stalls,
    sum(CASE WHEN e.began >= c.t THEN 1 ELSE 0 END) AS after_stalls,
    mode(CASE WHEN e.began >= c.t THEN e.cause END) AS cause
  FROM windowed c LEFT JOIN episodes e ON e.cluster = c.cluster AND e.topic = c.topic
    AND e.subscription = c.subscription AND e.status IN ('stalled', 'warning')
    AND e.began >= c.t - 86400 * c.before_days AND e.began < c.t + 86400 * c.after_days
  GROUP BY c.what, c.cluster, c.topic, c.subscription, c.version, c.t
), scoped AS (
  SELECT what, cluster, topic, subscription, version, t, 1 AS subscriptions,
    before_days, after_days, before_stalls, after_stalls, cause
  FROM counted WHERE what <> 'broker version'
  UNION ALL
  SELECT what, cluster, NULL, NULL, version, min(t), count(*),
    sum(before_days), sum(after_days), sum(before_stalls), sum(after_stalls), mode(cause)
  FROM counted WHERE what <> 'deployment' GROUP BY what, cluster, version
  HAVING count(*) > 1
), odds AS (
  SELECT *, count(*) OVER (PARTITION BY cluster) AS tested,
    after_stalls / (after_stalls + before_stalls) AS a,
    after_days / (after_days + before_days) AS q
  FROM scoped WHERE after_stalls + before_stalls > 0
), judged AS (
  SELECT *, tested * exp(-(after_stalls + before_stalls) * (
    a * ln(a / q) + CASE WHEN a < 1 THEN (1 - a) * ln((1 - a) / (1 - q)) ELSE 0 END
  )) AS by_chance
  FROM odds WHERE a > q
)
SELECT what, cluster, topic, subscription, version, t AS began, cause, subscriptions,
  before_stalls, after_stalls, before_days, after_days, by_chance
FROM judged WHERE by_chance <= 0.1
ORDER BY by_chance, what, cluster, topic, subscription, version
