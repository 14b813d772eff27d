-- Queue sizes that do not fit: two seconds of work at the fastest pace of a consumer would.
-- Too large is only one that holds more than that: who waits for messages may be faster.
-- Not of a subscription that stood still when it was seen last: its queue is not what it waits for.
WITH paced AS (
  SELECT l.cluster, l.topic, l.subscription,
    count(DISTINCT CASE WHEN l.last_seen >= n.newest - 1800 THEN l.name END) AS consumers,
    max(l.room) AS queue_size, max(l.rate_most) AS rate, avg(l.held) AS held
  FROM lives l
  JOIN (SELECT cluster, max(last_seen) AS newest FROM spans GROUP BY cluster) n
    ON n.cluster = l.cluster
  WHERE l.last_seen >= n.newest - 7 * 86400
  GROUP BY l.cluster, l.topic, l.subscription
), sized AS (
  SELECT *, power(2, ceil(ln(greatest(1, 2 * rate)) / ln(2))) AS fits, queue_size / rate AS seconds
  FROM paced WHERE rate > 0 AND queue_size > 0
)
SELECT cluster, topic, subscription, consumers, queue_size, fits, rate, seconds
FROM sized
WHERE (queue_size >= 8 * fits AND held >= fits OR 4 * queue_size <= fits) AND NOT EXISTS (
  SELECT 1 FROM episodes e
  WHERE e.cluster = sized.cluster AND e.topic = sized.topic AND e.subscription = sized.subscription
    AND e.status <> 'warning' AND e.ended IS NULL
)
ORDER BY seconds DESC, cluster, topic, subscription
