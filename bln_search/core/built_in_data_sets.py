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
    "imdb_cloze": DataSetInfo(
        "bln_search.data.imdb_cloze:ENTRY", examples=(7_523, 7_437), text_length=96, has_fixed_length=True
    ),
    "imdb_next_word": DataSetInfo(
        "bln_search.data.imdb_next_word:ENTRY", TaskName.LANGUAGE_MODEL, (25_000, 25_000), text_length=80
    ),
    "imdb_sentences": DataSetInfo(
        "bln_search.data.imdb_sentences:ENTRY",
        TaskName.LANGUAGE_MODEL,
        (24_756, 24_737),
        text_length=48,
        has_fixed_length=True,
        models=frozenset({"skip_thoughts"}),
    ),
    "mnist": DataSetInfo("bln_search.data.mnist:ENTRY", examples=(60_000, 10_000)),
    "mnist_binarized": DataSetInfo("bln_search.data.mnist_binarized:ENTRY", TaskName.DENSITY, (60_000, 10_000)),
    "mnist_pair_captions": DataSetInfo(
        "bln_search.data.mnist_pair_captions:ENTRY",
        TaskName.RETRIEVAL,
        (50_000, 1_000),
        has_several_inputs=True,
        models=frozenset({"order_embeddings"}),
    ),
    "mnist_pair_digits": DataSetInfo("bln_search.data.mnist_pair_digits:ENTRY", TaskName.MULTI_LABEL, (50_000, 10_000)),
    "mnist_pairs": DataSetInfo("bln_search.data.mnist_pairs:ENTRY", examples=(50_000, 10_000)),
    "mnist_pen_tracks": DataSetInfo(
        "bln_search.data.mnist_pen_tracks:ENTRY",
        TaskName.DENSITY,
        (12_000, 2_000),
        has_several_inputs=True,
        models=frozenset({"handwriting"}),
    ),
}
"""The built-in data sets by name."""
