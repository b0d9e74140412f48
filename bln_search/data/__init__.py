"""Data sets: finding and verifying the published files, decoding them once, and splitting them reproducibly."""

from bln_search.data.catalog import CATALOG, CatalogEntry, DataFormat, load_data_set, load_texts_of_length
from bln_search.data.dataset import DataSet
from bln_search.data.files import PublishedFile
from bln_search.data.input_shape import InputField, InputShape, get_input_fields
from bln_search.data.inputs import StructuredInputs

__all__ = [
    "CATALOG",
    "CatalogEntry",
    "DataFormat",
    "DataSet",
    "InputField",
    "InputShape",
    "PublishedFile",
    "StructuredInputs",
    "get_input_fields",
    "load_data_set",
    "load_texts_of_length",
]
