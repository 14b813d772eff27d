"""Reads a Pulsar cluster's state: over REST, or from saved files.

Reading only. admin asks, stats are the values, samples are files of them, sampling is a window of
them on a live broker, fleet is whole namespaces.
"""
