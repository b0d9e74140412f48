"""The ranked table of a network: rows, comparison, printing, charts, records and files."""
