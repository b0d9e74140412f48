"""Trials run by processes of this machine or by Ray."""
