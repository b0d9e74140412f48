"""Evaluations of trained networks with their outcomes, probes, analyses and per-layer searches."""
