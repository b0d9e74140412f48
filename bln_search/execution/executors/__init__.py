"""Executors: the processes of this machine, or Ray, run the trials of a study."""
