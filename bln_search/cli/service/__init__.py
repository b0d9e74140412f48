"""Verbs of a service: its processes, access tokens, and links to single studies."""
