-- Of each limit: the sums from which a straight line through any days follows. x: days, y: its share.
WITH shares AS (
  SELECT *, t / 86400 - floor(t / 86400) AS x, level / most AS y FROM levels_seen
)
SELECT cluster, day, topic, subscription, name,
  count(*) AS n, sum(x) AS sx, sum(y) AS sy, sum(x * x) AS sxx, sum(x * y) AS sxy, sum(y * y) AS syy,
  max(t) AS last_seen, max_by(level, t) AS level, max_by(most, t) AS most
FROM shares
GROUP BY cluster, day, topic, subscription, name
