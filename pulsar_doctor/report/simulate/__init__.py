"""What `simulate` found: a table over queue sizes, and a document."""
