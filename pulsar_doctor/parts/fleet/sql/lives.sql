-- Each connection of a consumer, by day. room: its queue as the broker sees it, at its largest.
SELECT cluster, day, topic, subscription, name, version, connected,
  min(t) AS first_seen, max(t) AS last_seen,
  max(permits + unacked) AS room, avg(unacked) AS held, avg(rate) AS rate, max(rate) AS rate_most
FROM consumers_seen
GROUP BY cluster, day, topic, subscription, name, version, connected
