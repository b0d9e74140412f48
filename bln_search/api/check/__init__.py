"""The check of a trained network: which statistics it should use, why, and whether a change is worth it."""
