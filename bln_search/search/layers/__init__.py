"""Which per-layer configurations to try next. What they are judged by is `evaluation.tree`."""
