"""The graph of a network's forward pass, split into segments at its normalization layers."""
