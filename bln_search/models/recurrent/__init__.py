"""Recurrent layers and networks."""

from bln_search.models.recurrent.layer import LSTM, RecurrentLayer
from bln_search.models.recurrent.network import Recurrent

__all__ = ["LSTM", "Recurrent", "RecurrentLayer"]
