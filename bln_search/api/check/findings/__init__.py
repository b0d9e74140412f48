"""Causes that explain why the deployed network is worse than it could be: one function for each."""
