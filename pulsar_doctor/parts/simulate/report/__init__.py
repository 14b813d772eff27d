"""The output of `simulate`: a table over queue sizes, and JSON."""
