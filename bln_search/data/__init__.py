"""Data sets in their original files: found, verified, decoded once, split the same way every time."""

from bln_search.data.catalog import CATALOG, load_data
from bln_search.data.dataset import DataSet
from bln_search.data.prepared import PreparedData, Standardizer, fit_standardization, prepare

__all__ = ["CATALOG", "DataSet", "PreparedData", "Standardizer", "fit_standardization", "load_data", "prepare"]
