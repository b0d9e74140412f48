"""Sections of a study file, one model for each."""
