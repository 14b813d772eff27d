"""What `analyze` found in traces: the worst of each table, and all of it as JSON."""
