-- What is normal for a subscription at an hour (UTC). quiet: nothing came in, all that hour.
SELECT cluster, topic, subscription, hour, count(*) AS days,
  sum(CASE WHEN quiet = n THEN 1 ELSE 0 END) AS quiet_days,
  sum(CASE WHEN silent = n THEN 1 ELSE 0 END) AS silent_days,
  sum(CASE WHEN not_well > 0 THEN 1 ELSE 0 END) AS not_well_days,
  min(comes_in) AS least_in, median(comes_in) AS comes_in, max(comes_in) AS most_in
FROM hours
GROUP BY cluster, topic, subscription, hour
ORDER BY cluster, topic, subscription, hour
