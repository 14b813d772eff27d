-- What stalled, how often, how long, and at which hour (UTC) most.
SELECT cluster, topic, subscription, status, cause,
  count(*) AS times, sum(seconds) AS seconds, max(seconds) AS longest_seconds,
  max(depth) AS depth, mode(ended_by) AS ended_by,
  mode(cast(floor(began / 3600) AS bigint) % 24) AS hour,
  max(began) AS last_began
FROM episodes
WHERE status IN ('stalled', 'warning')
GROUP BY cluster, topic, subscription, status, cause
ORDER BY status <> 'stalled', seconds DESC, cluster, topic, subscription, cause
