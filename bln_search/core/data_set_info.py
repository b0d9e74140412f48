"""What is known of a data set without its files and without importing the code that decodes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bln_search.core.tasks import TaskName


@dataclass(frozen=True)
class DataSetInfo:
    """What a data set contains. A package registers it in the entry point group `bln_search.data_set_infos`.

    The service loads this object without torch: the module that defines it must not import torch or
    `bln_search.data`.

    Attributes:
        entry: Place of its `bln_search.data.catalog.CatalogEntry`, as `package.module:name`, which is imported when the
            data set is read.
        task: What its labels are made for.
        examples: Numbers of examples for training and test; None if they are not known without its files.
        text_length: Number of token ids of an input; None where inputs are measurements.
        has_fixed_length: Whether inputs cannot have another number of token ids.
        has_several_inputs: Whether an example has several inputs with names.
        is_lazy: Whether its examples are decoded one mini-batch at a time.
        models: The only models that take it; empty for all.
        own_options: Keys of `data` that this data set alone has: for each the type of its value, which pydantic checks.
            `find` or `load` of its entry takes them as keyword arguments, and has their defaults.
    """

    entry: str
    task: str = TaskName.CLASSIFICATION
    examples: tuple[int, int] | None = None
    text_length: int | None = None
    has_fixed_length: bool = False
    has_several_inputs: bool = False
    is_lazy: bool = False
    models: frozenset[str] = frozenset()
    own_options: Mapping[str, Any] = field(default_factory=dict)
