"""The broker's stats as values, and what changed between two samples.

fields: one field of JSON, reported or not · topic: a topic, its subscriptions and consumers ·
reading: the same from JSON · internal: ledgers and cursors, from JSON · sample: one reading, and
the broker's clock · window: samples over time, differences, resets · backlog: what is not
acknowledged, and whether its counter is right · followed: what a document that was copied by hand
leaves out and yet tells · observed: one subscription over a window.
"""
