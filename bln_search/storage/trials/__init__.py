"""Trials of a study, and attempts at them."""
