"""Tests of the traced graph."""
