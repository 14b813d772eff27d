-- Client versions that leak (the room of a consumer's queue shrinks from day to day) or hoard.
WITH life AS (
  SELECT cluster, topic, subscription, name, version, connected,
    max(last_seen) - min(first_seen) AS seconds,
    min_by(room, day) AS first_room, max_by(room, day) AS last_room,
    avg(held) AS held, avg(rate) AS rate
  FROM lives WHERE version IS NOT NULL
  GROUP BY cluster, topic, subscription, name, version, connected
), judged AS (
  SELECT *, seconds >= 86400 AS is_long,
    CASE WHEN seconds >= 86400 AND last_room <= 0.8 * first_room THEN 1 ELSE 0 END AS leaks,
    86400 * (first_room - last_room) / CASE WHEN seconds >= 86400 THEN seconds END AS lost,
    CASE WHEN rate > 0 THEN held / rate END AS held_seconds
  FROM life
), together AS (SELECT cluster, median(held_seconds) AS usual FROM judged GROUP BY cluster)
SELECT j.cluster, j.version,
  count(DISTINCT concat(j.topic, ' ', j.subscription, ' ', j.name)) AS consumers, sum(j.leaks) AS leaking,
  sum(CASE WHEN j.is_long THEN 1 ELSE 0 END) AS long_lived,
  median(j.lost) AS lost_a_day, median(j.held_seconds) AS held_seconds,
  sum(j.leaks) >= 3 AND sum(j.leaks) >= 0.5 * sum(CASE WHEN j.is_long THEN 1 ELSE 0 END) AS is_leaky,
  count(*) >= 10 AND median(j.held_seconds) >= greatest(2, 3 * max(t.usual)) AS is_hoarding
FROM judged j JOIN together t ON t.cluster = j.cluster
GROUP BY j.cluster, j.version
ORDER BY leaking DESC, consumers DESC, j.cluster, j.version
