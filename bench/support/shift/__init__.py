"""Data, network and rows of the benchmark of distribution shift."""
