"""The tap: a relay and an observer, started, looked after and shown as one."""
