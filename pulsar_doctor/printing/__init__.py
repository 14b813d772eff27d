"""The gate: the one way out for text, on stdout and stderr, whatever a name in it is made of."""
