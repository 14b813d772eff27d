-- When each limit is reached, by a straight line through the three days up to each day.
WITH dated AS (
  SELECT *, floor(last_seen / 86400) - 20454 AS d FROM levels
), summed AS (
  SELECT cluster, day, topic, subscription, name, level, most, last_seen,
    sum(n) OVER w AS n, sum(sy) OVER w AS sy, sum(syy) OVER w AS syy,
    sum(sx + n * d) OVER w AS sx, sum(sxx + 2 * d * sx + n * d * d) OVER w AS sxx,
    sum(sxy + d * sy) OVER w AS sxy
  FROM dated
  WINDOW w AS (
    PARTITION BY cluster, topic, subscription, name ORDER BY d
    RANGE BETWEEN 2 PRECEDING AND CURRENT ROW
  )
), fitted AS (
  SELECT *, (n * sxy - sx * sy) / (n * sxx - sx * sx) AS slope,
    (n * sxy - sx * sy) * (n * sxy - sx * sy)
      / ((n * sxx - sx * sx) * (n * syy - sy * sy)) AS fit,
    last_seen / 86400 - 20454 AS x
  FROM summed
  WHERE n >= 48 AND n * sxx - sx * sx > 0 AND n * syy - sy * sy > 0
), due AS (
  SELECT *, (1 - (sy / n + slope * (x - sx / n))) / slope AS days_left
  FROM fitted WHERE slope > 0 AND fit >= 0.8
)
SELECT cluster, day, topic, subscription, name, level, most, slope * most AS a_day, days_left,
  last_seen + days_left * 86400 AS reached, last_seen
FROM due WHERE days_left > 0 AND days_left <= 60
