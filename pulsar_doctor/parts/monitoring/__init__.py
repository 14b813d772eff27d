"""Answers a monitoring system that scrapes, and prints alert rules and a dashboard for it."""
