"""Backups: the database and every checkpoint that it names, as of one moment."""
