"""Text for people: how values are written and read, and the filter for printed text."""
