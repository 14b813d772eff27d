"""What to do about a finding: the words, lines and settings that causes share."""
