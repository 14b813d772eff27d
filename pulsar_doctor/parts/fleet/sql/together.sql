-- Topics that share a cause and a moment: stalls that began within two minutes of each other.
WITH marked AS (
  SELECT *,
    CASE WHEN began - lag(began) OVER w <= 120 THEN 0 ELSE 1 END AS starts,
    count(*) OVER (PARTITION BY cluster, cause) AS n,
    max(last_seen) OVER (PARTITION BY cluster) - min(began) OVER (PARTITION BY cluster) AS watched
  FROM episodes
  WHERE status IN ('stalled', 'warning')
  WINDOW w AS (PARTITION BY cluster, cause ORDER BY began)
), numbered AS (
  SELECT *, sum(starts) OVER (PARTITION BY cluster, cause ORDER BY began) AS number FROM marked
)
SELECT cluster, cause, min(began) AS began, max(coalesce(ended, last_seen)) AS ended,
  count(DISTINCT topic) AS topics, mode(ended_by) AS ended_by, min(topic) AS first_topic,
  max(n * power(n * 120 / greatest(watched, 86400), 2)) AS by_chance
FROM numbered
GROUP BY cluster, cause, number
HAVING count(DISTINCT topic) >= 3 AND max(n * power(n * 120 / greatest(watched, 86400), 2)) <= 0.1
ORDER BY topics DESC, began, cluster, cause
