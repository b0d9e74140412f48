"""Data sets: finding and verifying the published files, decoding them once, and splitting them reproducibly.

Only `bln_search.data.prepared` imports torch.
"""

from bln_search.data.catalog import CATALOG, load_data_set, load_texts_of_length
from bln_search.data.dataset import DataSet

__all__ = ["CATALOG", "DataSet", "load_data_set", "load_texts_of_length"]
