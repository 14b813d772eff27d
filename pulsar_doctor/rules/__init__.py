"""The rules: each file is one root cause; its presence is its registration."""
