-- Queue sizes that do not fit: two seconds of work at the fastest pace of a consumer would.
WITH paced AS (
  SELECT cluster, topic, subscription, count(DISTINCT name) AS consumers,
    max(room) AS queue_size, max(rate_most) AS rate
  FROM lives
  WHERE day >= (SELECT max(day) FROM lives) - INTERVAL '7' DAY
  GROUP BY cluster, topic, subscription
), sized AS (
  SELECT *, power(2, ceil(ln(greatest(1, 2 * rate)) / ln(2))) AS fits, queue_size / rate AS seconds
  FROM paced WHERE rate > 0 AND queue_size > 0
)
SELECT cluster, topic, subscription, consumers, queue_size, fits, rate, seconds
FROM sized
WHERE queue_size >= 8 * fits OR 4 * queue_size <= fits
ORDER BY seconds DESC, cluster, topic, subscription
