"""Checkpoint files: which studies need them, which database owns them, which can be removed."""
