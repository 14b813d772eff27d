"""The answers as tables on a terminal, and as a page."""
