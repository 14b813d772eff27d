"""What a consumer did over time, small enough to be drawn."""
