"""Trackers get the results of a study while it runs, and afterwards."""
