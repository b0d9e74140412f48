"""The editor of a new study."""
