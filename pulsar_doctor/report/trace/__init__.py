"""The output of `trace`: rows, consumers, completeness."""
