"""Descriptions of the networks, without torch."""

from __future__ import annotations

from bln_search.core.model_info import ModelInfo

ALLCONV = ModelInfo(
    "bln_search_papers.ap2.all_convolutional:AllConvolutionalNetwork",
    options=frozenset({"widths"}),
    is_stackable=True,
)
