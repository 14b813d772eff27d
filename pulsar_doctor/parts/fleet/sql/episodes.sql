-- Each time that a subscription was not well, over days: what came before it, and what ended it.
-- Where a consumer came in the ten minutes before the end, it is compared with the begin.
WITH merged AS (
$runs), linked AS (
  SELECT *,
    lead(began) OVER w AS next_began, lead(status) OVER w AS next_status,
    lead(first_names) OVER w AS next_names, lead(first_lives) OVER w AS next_lives,
    lead(first_versions) OVER w AS next_versions,
    max(last_seen) OVER (PARTITION BY cluster) AS watched_until
  FROM merged
  WINDOW w AS (PARTITION BY cluster, topic, subscription ORDER BY began)
), followed AS (
  SELECT *,
    CASE WHEN next_began - last_row <= 1800 THEN next_began END AS ended,
    newest >= last_seen - 600 AND newest >= began AS lately
  FROM linked
  WHERE status NOT IN ('healthy', 'gone')
), compared AS (
  SELECT *,
    CASE WHEN lately THEN first_names ELSE last_names END AS names,
    CASE WHEN lately THEN first_lives ELSE last_lives END AS lives,
    CASE WHEN lately THEN first_versions ELSE last_versions END AS versions
  FROM followed
)
SELECT cluster, topic, subscription, status, cause, certainty, consumer, depth,
  began, ended, last_seen, coalesce(ended, last_seen) - began AS seconds,
  versions, next_versions, broker_version,
  CASE
    WHEN ended IS NULL AND last_seen >= watched_until - 1800 THEN 'goes on'
    WHEN ended IS NULL THEN 'not watched'
    WHEN next_status = 'gone' THEN 'subscription deleted'
    WHEN next_lives IS NULL OR lives IS NULL THEN 'not reported'
    WHEN size(lives) = 0 AND size(next_lives) > 0 THEN 'a consumer came'
    WHEN size(array_except(next_versions, versions)) > 0 THEN 'new version'
    WHEN size(array_except(next_names, names)) > 0 THEN 'restart'
    WHEN size(next_lives) > 1 AND size(array_except(next_lives, lives)) = size(next_lives)
      THEN 'unload'
    WHEN size(array_except(next_lives, lives)) > 0 THEN 'reconnect'
    WHEN size(array_except(lives, next_lives)) > 0 THEN 'a consumer left'
    ELSE 'nothing seen'
  END AS ended_by
FROM compared
ORDER BY status <> 'stalled', began DESC, cluster, topic, subscription
