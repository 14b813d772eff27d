-- How long each subscription had one status and cause without a pause of the watch: spans of what
-- was seen, within a day, and episodes of these, over days.
WITH marked AS (
  SELECT *,
    CASE WHEN status = lag(status) OVER w AND cause IS NOT DISTINCT FROM lag(cause) OVER w
      AND $began - lag($last_row) OVER w <= 1800 THEN 0 ELSE 1 END AS starts
  FROM $source
  WINDOW w AS (PARTITION BY cluster$day, topic, subscription ORDER BY $began)
), numbered AS (
  SELECT *,
    sum(starts) OVER (PARTITION BY cluster$day, topic, subscription ORDER BY $began) AS number
  FROM marked
)
SELECT cluster$day, topic, subscription,
  min($began) AS began, max($last_row) AS last_row, max($last_seen) AS last_seen,
  max(status) AS status, max(cause) AS cause,
  max(certainty) AS certainty, max(consumer) AS consumer, max($depth) AS depth,
  max(broker_version) AS broker_version,
  min_by(${first}names, $began) AS first_names, max_by(${last}names, $began) AS last_names,
  min_by(${first}lives, $began) AS first_lives, max_by(${last}lives, $began) AS last_lives,
  min_by(${first}versions, $began) AS first_versions,
  max_by(${last}versions, $began) AS last_versions,
  max(newest) AS newest$next
FROM numbered
GROUP BY cluster$day, topic, subscription, number
