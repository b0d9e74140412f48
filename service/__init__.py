"""bln-search over HTTP: studies are sent in, followed and read. Never loads torch, Ray or Optuna."""
