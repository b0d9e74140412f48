"""Search: Optuna samplers, searches of per-layer configurations, and preflight checks of a study."""
