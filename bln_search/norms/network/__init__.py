"""The normalization layers of a whole network: finding, population values, drift and folding."""
