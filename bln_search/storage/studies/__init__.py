"""Studies: lifecycle, queue, progress."""
