"""Sources of studies for the commands: the local database, or a service."""
