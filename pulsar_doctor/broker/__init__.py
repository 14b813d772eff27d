"""What a Pulsar cluster tells of itself: asked over REST, kept in files, read as values.

Reading only. admin asks, stats are the values, samples are files of them, sampling is a window of
them on a live broker, fleet is whole namespaces.
"""
