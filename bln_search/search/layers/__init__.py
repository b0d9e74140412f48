"""Search of per-layer configurations: which configuration to evaluate next. `evaluation.tree` evaluates them."""
