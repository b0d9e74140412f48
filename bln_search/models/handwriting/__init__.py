"""Prediction of the track of a pen that writes a text."""

from bln_search.models.handwriting.network import Handwriting

__all__ = ["Handwriting"]
