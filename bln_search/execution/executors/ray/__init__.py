"""Run trials with Ray Tune, on this machine or on the nodes of a cluster."""
