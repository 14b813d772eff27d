"""Findings and rows for a person or a program to read."""
