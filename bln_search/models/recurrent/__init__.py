"""Recurrent layers and networks."""

from bln_search.models.recurrent.cells import CellOutputNormalizedLSTM, NormalizedGRU, NormalizedLSTM, NormalizedRNN
from bln_search.models.recurrent.layer import LSTM, RecurrentLayer
from bln_search.models.recurrent.network import RecurrentNetwork
from bln_search.models.recurrent.stepwise import GRU, RNN, StepwiseLayer, TimeStep
from bln_search.models.recurrent.time_step_norms import TimeStepNorms

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "CellOutputNormalizedLSTM",
    "NormalizedGRU",
    "NormalizedLSTM",
    "NormalizedRNN",
    "RecurrentLayer",
    "RecurrentNetwork",
    "StepwiseLayer",
    "TimeStep",
    "TimeStepNorms",
]
