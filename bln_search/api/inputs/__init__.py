"""Loaders, batches and scores of the user's own networks."""
