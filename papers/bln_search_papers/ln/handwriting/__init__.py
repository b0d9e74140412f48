"""Prediction of the track of a pen that writes a text."""

from bln_search_papers.ln.handwriting.network import Handwriting

__all__ = ["Handwriting"]
