-- How long each subscription had one status and cause without a pause of the watch, within a day.
WITH marked AS (
  SELECT *,
    CASE WHEN status = lag(status) OVER w AND cause IS NOT DISTINCT FROM lag(cause) OVER w
      AND t - lag(t) OVER w <= 1800 THEN 0 ELSE 1 END AS starts
  FROM seen
  WINDOW w AS (PARTITION BY cluster, day, topic, subscription ORDER BY t)
), numbered AS (
  SELECT *,
    sum(starts) OVER (PARTITION BY cluster, day, topic, subscription ORDER BY t) AS span
  FROM marked
)
SELECT cluster, day, topic, subscription,
  min(t) AS began, max(t) AS last_seen,
  max(status) AS status, max(cause) AS cause,
  max(certainty) AS certainty, max(consumer) AS consumer, max(backlog) AS depth,
  max(broker_version) AS broker_version,
  min_by(names, t) AS first_names, max_by(names, t) AS last_names,
  min_by(lives, t) AS first_lives, max_by(lives, t) AS last_lives,
  min_by(versions, t) AS first_versions, max_by(versions, t) AS last_versions,
  max(newest) AS newest
FROM numbered
GROUP BY cluster, day, topic, subscription, span
