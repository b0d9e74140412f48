"""Estimated duration of a study on this machine, from a few measured steps of each arm."""
