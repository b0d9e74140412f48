"""Points of a study's space suggested by Optuna."""
