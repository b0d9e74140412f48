"""Per-layer configurations: a tree whose branches share what they have in common."""
