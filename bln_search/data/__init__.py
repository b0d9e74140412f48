"""Data sets in their original files: found, verified, decoded once, split the same way every time.

Tensors come in with `bln_search.data.prepared`; what is here is known without torch.
"""

from bln_search.data.catalog import CATALOG, load_data
from bln_search.data.dataset import DataSet

__all__ = ["CATALOG", "DataSet", "load_data"]
