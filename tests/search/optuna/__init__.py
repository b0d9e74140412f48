"""Optuna samplers."""
