"""Known issues: their data, their conditions, and fixtures that show which states they fit."""
