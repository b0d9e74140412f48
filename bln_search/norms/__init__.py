"""Normalization layers whose statistics each come from the population or from the mini-batch."""

from bln_search.norms.brn import BRN
from bln_search.norms.mbn import MBN
from bln_search.norms.methods import BLN, BN, LN, make_norm
from bln_search.norms.normalization import Normalization

__all__ = ["BLN", "BN", "BRN", "LN", "MBN", "Normalization", "make_norm"]
