"""Tests of the row batching."""
