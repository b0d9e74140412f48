"""Executors run the trials of a study: in processes of this machine, or with Ray."""
