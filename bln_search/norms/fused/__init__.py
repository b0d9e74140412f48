"""Normalization in training with few kernel launches: two in the forward pass, two in the backward pass."""
