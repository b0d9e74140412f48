"""The command `bln-search`."""
