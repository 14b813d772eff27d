"""What `consume` and `demo` show: lines as things happen, and what it all came to."""
