"""What to do about a finding: texts, command lines and settings that causes share."""
