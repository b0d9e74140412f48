"""Data sets in their original files: found, verified, decoded once, split the same way every time."""

from bln_search.data.catalog import CATALOG, load_data
from bln_search.data.dataset import DataSet
from bln_search.data.prepared import PreparedData, prepare

__all__ = ["CATALOG", "DataSet", "PreparedData", "load_data", "prepare"]
