-- Runs of each day, until the last round that could have shown their end. What is read has a row in the
-- first round of a quarter of an hour, and on change: it was the same in all rounds before its next
-- row, up to the end of the quarter.
WITH merged AS (
$runs)
SELECT m.cluster, m.day, topic, subscription, began, last_row,
  max(greatest(last_row, r.t)) AS last_seen,
  status, cause, certainty, consumer, depth, broker_version, first_names, last_names,
  first_lives, last_lives, first_versions, last_versions, newest
FROM merged m LEFT JOIN rounds_seen r ON r.cluster = m.cluster AND r.day = m.day
  AND floor(r.t / 900) = floor(last_row / 900) AND r.t < next_row
GROUP BY ALL
