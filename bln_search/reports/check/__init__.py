"""A finished check of a network as text, page, model card and table."""
