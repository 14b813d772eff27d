"""Lengths of time, amounts of bytes and mistyped names, as people write and read them."""
