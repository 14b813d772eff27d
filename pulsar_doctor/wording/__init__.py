"""Text for people: how values are written and read, and the gate that all printed text passes."""
