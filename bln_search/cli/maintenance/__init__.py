"""Verbs that maintain an installation: settings, backups, checkpoints, the database, data sets."""
