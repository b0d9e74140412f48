"""Tests, mirrored on the source."""
