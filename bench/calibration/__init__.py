"""Fits shares of suspects and findings to states of which the cause is known, and judges them."""
