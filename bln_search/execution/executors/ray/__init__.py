"""Trials run by Ray Tune, here or on the nodes of a cluster."""
