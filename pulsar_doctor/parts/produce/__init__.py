"""Sends test messages."""
