-- Who reaches a limit when, as of the newest day.
SELECT f.cluster, f.topic, f.subscription, f.name, f.level, f.most, f.a_day, f.days_left, f.reached
FROM forecasts f
JOIN (SELECT cluster, max(last_seen) AS newest FROM spans GROUP BY cluster) s ON s.cluster = f.cluster
WHERE f.last_seen >= s.newest - 1800
ORDER BY reached, f.cluster, f.topic, f.subscription, f.name
