"""Search: points suggested by Optuna, per-layer configurations, and checks before a study starts."""
