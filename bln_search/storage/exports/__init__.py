"""Exports of trained networks that people request and workers build."""
