"""The figures of an exported program on the test split of its study."""

from __future__ import annotations

import numpy as np
import torch

from bln_search.api.export.check import ProgramFigures
from bln_search.api.export.outputs import flatten_outputs_by_name
from bln_search.api.export.runtimes import Program
from bln_search.api.export.trained_export import TrainedRow
from bln_search.core.enums import Split
from bln_search.core.errors import ExportError
from bln_search.data import DataSet
from bln_search.data.prepared import fit_target_standardization
from bln_search.tasks import make_task

LOSS_TOLERANCE = 1e-3
"""Largest accepted difference from the loss in the ranked table, relative to that loss if it is above 1."""


@torch.no_grad()
def measure_program_on_test_split(form: str, program: Program, row: TrainedRow, data: DataSet) -> ProgramFigures:
    """Evaluate a program as the study evaluated the row: in the same mini-batches, the last one filled with the first.

    Raises:
        ExportError: The loss is not that of the row in the ranked table.
    """
    task, n = make_task(row.trial.resolved_task), len(data.test_labels)
    units = fit_target_standardization(data, row.trial.data)
    targets = torch.from_numpy(np.copy(data.test_labels) if units is None else units(data.test_labels))
    losses, correct = [], []
    for start in range(0, n, row.batch_size):
        indices = np.arange(start, start + row.batch_size) % n
        outputs = program(torch.from_numpy(data.test_inputs[indices]).float())
        (values,) = flatten_outputs_by_name(outputs).values()
        if units is not None:
            values = ((values.double() - torch.from_numpy(units.mean)) / torch.from_numpy(units.deviation)).float()
        scores = task.score(values[: n - start], targets[start : start + row.batch_size])
        losses.append(scores[0].double())
        correct.append(scores[1])
    accuracy = torch.cat(correct).double().mean().item() if task.description.has_accuracy else None
    figures = ProgramFigures(form, n, row.batch_size, torch.cat(losses).mean().item(), accuracy)
    _check_figures_are_those_of_the_table(figures, row)
    return figures


def _check_figures_are_those_of_the_table(figures: ProgramFigures, row: TrainedRow) -> None:
    in_table = row.figures.this_seed.get(Split.TEST.value)
    if in_table is None or abs(figures.loss - in_table.loss) <= LOSS_TOLERANCE * max(1.0, abs(in_table.loss)):
        return
    raise ExportError(
        f"{row.row_label} has a test loss of {in_table.loss:.4f} in the ranked table, but the exported program "
        f"({figures.form}) has {figures.loss:.4f} on the same {figures.examples} examples; nothing was written: the "
        f"code or the data of the study {row.study} changed since (see `bln-search verify {row.study}`)"
    )
