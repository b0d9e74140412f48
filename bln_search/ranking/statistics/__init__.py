"""Intervals, effects and displays of differences, computed without SciPy."""
