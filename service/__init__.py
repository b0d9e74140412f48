"""bln-search over HTTP: studies are submitted, followed and read. Never loads torch, Ray or Optuna."""
