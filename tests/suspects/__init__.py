"""Suspects: what may be, what speaks for it, and what is ruled out."""
