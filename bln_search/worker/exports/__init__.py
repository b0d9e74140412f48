"""Builds exports of trained networks on request, beside the trials of a worker."""
