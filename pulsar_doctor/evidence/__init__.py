"""What checks look at: how a consumer stands, waits, starves or hoards, as far as sources tell."""
