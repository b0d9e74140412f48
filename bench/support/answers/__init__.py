"""Simulations of the verdicts and recommendations of bln-search, and the verdicts of its own studies."""
