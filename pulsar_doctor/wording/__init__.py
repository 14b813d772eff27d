"""Lengths of time, amounts of bytes, addresses, mistyped names: as people write and read them."""
