"""Analyses traces in Apache Spark."""
