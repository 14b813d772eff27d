"""Acknowledged ranges and the holes between them, drawn, counted and as JSON."""
