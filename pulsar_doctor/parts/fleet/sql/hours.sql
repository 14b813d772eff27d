-- Each hour of each subscription, by day.
SELECT cluster, day, topic, subscription, cast(floor(t / 3600) AS bigint) % 24 AS hour,
  count(*) AS n,
  sum(CASE WHEN comes_in = 0 THEN 1 ELSE 0 END) AS quiet,
  sum(CASE WHEN sent_out = 0 THEN 1 ELSE 0 END) AS silent,
  sum(CASE WHEN status = 'healthy' THEN 0 ELSE 1 END) AS not_well,
  avg(comes_in) AS comes_in
FROM seen
WHERE status <> 'gone'
GROUP BY cluster, day, topic, subscription, cast(floor(t / 3600) AS bigint) % 24
