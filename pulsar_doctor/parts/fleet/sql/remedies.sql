-- Whether a remedy at a moment worked: stalls before it and after it, in as many days as there are.
-- by_chance: how likely so few, or so many, are if nothing changed, at most (Chernoff).
WITH watched AS (
  SELECT cluster, min(began) AS t0, max(last_seen) AS t1 FROM spans GROUP BY cluster
), counted AS (
  SELECT e.cluster, e.topic, e.subscription, e.cause,
    sum(CASE WHEN e.began < :remedy THEN 1 ELSE 0 END) AS before_stalls,
    sum(CASE WHEN e.began >= :remedy THEN 1 ELSE 0 END) AS after_stalls,
    least(14, (:remedy - max(w.t0)) / 86400) AS before_days,
    least(14, (max(w.t1) - :remedy) / 86400) AS after_days
  FROM episodes e JOIN watched w ON w.cluster = e.cluster
  WHERE e.status IN ('stalled', 'warning')
    AND e.began >= :remedy - 14 * 86400 AND e.began < :remedy + 14 * 86400
  GROUP BY e.cluster, e.topic, e.subscription, e.cause
), shares AS (
  SELECT *, after_stalls / (after_stalls + before_stalls) AS a,
    after_days / (after_days + before_days) AS q
  FROM counted WHERE before_days > 0 AND after_days > 0 AND before_stalls > 0
), judged AS (
  SELECT *, exp(-(after_stalls + before_stalls) * (
    CASE WHEN a > 0 THEN a * ln(a / q) ELSE 0 END
    + CASE WHEN a < 1 THEN (1 - a) * ln((1 - a) / (1 - q)) ELSE 0 END
  )) AS by_chance
  FROM shares
)
SELECT cluster, topic, subscription, cause, before_stalls, after_stalls, before_days, after_days,
  by_chance,
  CASE WHEN by_chance > 0.05 THEN 'not known yet' WHEN a < q THEN 'worked' ELSE 'worse' END AS outcome
FROM judged
ORDER BY by_chance, cluster, topic, subscription, cause
