"""Which row to use: the recommended one, those near it, and what the selection costs."""
