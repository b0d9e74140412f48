"""The loaders of a Lightning trainer as an evaluation reads them: copies, within limits, with the hooks of the user."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bln_search.api.inputs.loaders import Loader
from bln_search.core.errors import DataError
from bln_search.integrations.loader_copies import LimitedLoader, copy_loader

if TYPE_CHECKING:
    from lightning.pytorch import Trainer


def find_training_loader(trainer: Trainer) -> Loader:
    """A copy of the training loader, as far as the trainer reads it in an epoch.

    Raises:
        DataError: There is none, or there are several.
    """
    loader = trainer.train_dataloader
    if isinstance(loader, list | tuple) and len(loader) == 1:
        loader = loader[0]
    if loader is None or isinstance(loader, list | tuple | dict):
        raise DataError(f"the trainer has {_describe_loaders(loader)} for training: give train_loader=")
    batches = max(trainer.fit_loop.epoch_loop.total_batch_idx + 1, 1)  # bounds a stream that does not end
    limit = batches if math.isinf(trainer.num_training_batches) else int(trainer.num_training_batches)
    return _limit(loader, limit, _make_preparation(trainer, 0, is_training=True))


def find_validation_loaders(trainer: Trainer) -> Loader | dict[str, Loader]:
    """A copy of the validation loader, or of several by name, as far as the trainer reads them.

    Raises:
        DataError: The trainer reads no validation mini-batch.
    """
    loaders, limits = trainer.val_dataloaders, trainer.num_val_batches
    if loaders is None or not sum(limits):
        raise DataError(
            "the trainer reads no validation mini-batches (there is no loader, or limit_val_batches=0): give "
            "validation_loader="
        )
    if isinstance(loaders, Mapping):
        by_name = dict(loaders)
    elif isinstance(loaders, list | tuple):
        by_name = {f"loader_{number}": loader for number, loader in enumerate(loaders)}
    else:
        by_name = {"": loaders}
    limited = {
        name: _limit(
            loader, None if math.isinf(limit) else int(limit), _make_preparation(trainer, number, is_training=False)
        )
        for number, ((name, loader), limit) in enumerate(zip(by_name.items(), limits, strict=True))
    }
    return next(iter(limited.values())) if len(limited) == 1 else limited


def _describe_loaders(loader: object) -> str:
    return "no loader" if loader is None else "several loaders"


def _limit(loader: Any, limit: int | None, prepare: Callable[[Any], Any]) -> Loader:
    return LimitedLoader(copy_loader(loader), limit, prepare)


def _make_preparation(trainer: Trainer, index: int, *, is_training: bool) -> Callable[[Any], Any]:
    """A function that prepares a mini-batch of a loader as the trainer does, with the hooks of the user."""

    def prepare(batch: Any) -> Any:
        stage = trainer.state.stage
        if not is_training:
            trainer.validating = True
        try:
            return trainer.strategy.batch_to_device(trainer.precision_plugin.convert_input(batch), dataloader_idx=index)
        finally:
            trainer.state.stage = stage

    return prepare
