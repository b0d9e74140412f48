"""Shekhovtsov & Flach 2018, Normalization of neural networks using analytic variance propagation (AP2)."""
