"""Atomic file writes, free disk space and rotated log files."""
