"""Reads finished studies from a ledger into bench/results."""
