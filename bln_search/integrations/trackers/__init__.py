"""Trackers of other projects get the results of a study: MLflow, TensorBoard, Weights & Biases.

The ledger is the source. `StudySynchronizer` reads it and lets a tracker write what the tracker lacks, so that an
interrupted export and a live run resume without doubles. A module of a tracker imports the package of the tracker and
is loaded only where `open_tracker` is asked for it.
"""
