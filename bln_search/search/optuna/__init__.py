"""Optuna samples points of a study's space and prunes trials."""
