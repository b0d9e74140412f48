"""The built-in data sets. A package adds others with the same description, see `bln_search.core.data_set_info`."""

from __future__ import annotations

from collections.abc import Mapping

from bln_search.core.data_set_info import DataSetInfo
from bln_search.core.tasks import TaskName

BUILT_IN_DATA_SETS: Mapping[str, DataSetInfo] = {
    "cifar10": DataSetInfo("bln_search.data.cifar10:ENTRY", examples=(50_000, 10_000)),
    "cifar100": DataSetInfo("bln_search.data.cifar100:ENTRY", examples=(50_000, 10_000)),
    "diabetes": DataSetInfo("bln_search.data.diabetes:ENTRY", TaskName.REGRESSION, (353, 89)),
    "digits": DataSetInfo("bln_search.data.digits:ENTRY", examples=(1_437, 360)),
    "imagenet": DataSetInfo("bln_search.data.imagenet:ENTRY", examples=(1_281_167, 50_000), is_lazy=True),
    "imdb": DataSetInfo("bln_search.data.imdb:ENTRY", examples=(25_000, 25_000), text_length=80),
    "imdb_case": DataSetInfo(
        "bln_search.data.imdb_case:ENTRY", TaskName.TOKEN_CLASSIFICATION, (25_000, 25_000), text_length=80
    ),
    "imdb_next_word": DataSetInfo(
        "bln_search.data.imdb_next_word:ENTRY", TaskName.LANGUAGE_MODEL, (25_000, 25_000), text_length=80
    ),
    "mnist": DataSetInfo("bln_search.data.mnist:ENTRY", examples=(60_000, 10_000)),
}
"""The built-in data sets by name."""
