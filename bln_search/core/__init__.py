"""Concepts that all packages share: configurations, states, records, errors. Imports no other package of bln_search."""
