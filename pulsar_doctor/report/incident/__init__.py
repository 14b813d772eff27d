"""The page of an incident: one HTML file that needs no network."""
