"""Which training runs can be trained as one program."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch

from bln_search.core.enums import Split
from bln_search.core.tasks import TaskName
from bln_search.specs import TrainingSpec
from bln_search.specs.sections.precision import TrainingPrecision
from bln_search.specs.trial import TrialSpec
from bln_search.tasks.task import CLASSIFICATION
from bln_search.training.loop import TrainingRun
from bln_search.training.stacked.network import is_stackable

_MAY_DIFFER: dict[str, Any] = {
    "seed": True,
    "parameters": True,
    "horizon": True,
    "probes": True,
    "evaluation": True,
    "training": {
        "learning_rate",
        "momentum",
        "weight_decay",
        "epsilon",
        "schedule",
        "epochs",
        "order",
        "checkpoint",
        "epoch_splits",
        "initialization",
    },
    "arm": {"name", "judged_under", "population", "lambda_", "r_max", "d_max", "fine_tune"},
}
"""Keys of a trial in which trials of one program may differ, and those that do not enter training."""


def may_be_fused_with_others(trial: TrialSpec) -> bool:
    """Return whether the specification of a trial leaves it open that others are trained with it as one program."""
    return (
        trial.model.info.is_stackable
        and trial.arm.method.description.is_stackable
        and not (trial.data.info is not None and trial.data.info.is_lazy)
        and trial.resolved_task.name == TaskName.CLASSIFICATION
        and not _has_options_of_single_training(trial.training)
    )


def _has_options_of_single_training(spec: TrainingSpec) -> bool:
    return spec.compile or spec.fused_norms or spec.augmentation is not None or spec.precision is TrainingPrecision.BF16


def find_stacking_key(run: TrainingRun, trial: TrialSpec) -> Hashable | None:
    """Return what must be equal in runs that `StackedTraining` trains together; None for a run that trains alone.

    Runs with a history of training steps (MBN, BRN) need equally many of them. Other runs may be in different epochs.

    Args:
        run: Before the first step of an epoch.
        trial: Whose training it is.
    """
    spec = run.spec
    inputs = run.data.splits[Split.TRAIN][0]
    trains_alone = (
        _has_options_of_single_training(spec)
        or run.progress.first_step > 0
        or run.task is not CLASSIFICATION
        or not isinstance(inputs, torch.Tensor)
        or type(run.optimizer) not in (torch.optim.Adam, torch.optim.SGD)
    )
    if trains_alone or not is_stackable(run.network):
        return None
    history = [layer.list_extra_state_numbers() for layer in run.layers.values() if layer.has_history]
    parameter = next(run.network.parameters())
    return (
        trial.model_dump_json(exclude=_MAY_DIFFER),
        id(run.data),
        run.estimates,
        str(history),
        parameter.dtype,
        run.running_loss is None,
    )
