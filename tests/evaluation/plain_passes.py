"""Plain forward passes, row by row, to compare the one pass with."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

from bln_search.evaluation import evaluate_rows_per_example
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.row_evaluator import use_row_in_all_layers
from tests.evaluation.builders import SIZE, draw_examples


@torch.no_grad()
def plain_losses(network, inputs, targets, populations, row, size=SIZE):
    """Return the losses in one row by plain forward passes over the same mini-batches."""
    losses = []
    with use_row_in_all_layers(row, populations):
        for x, y in iter_mini_batches_with_fillers(inputs, targets, size):
            losses.append(F.cross_entropy(network(x)[: len(y)], y, reduction="none"))
    return torch.cat(losses).numpy()


def assert_equal_to_plain_passes(network, name, populations, rows, tolerance=1e-10, **options):
    dtype = next(network.parameters()).dtype
    inputs, targets = draw_examples(name, dtype=dtype)
    results = evaluate_rows_per_example(
        network, iter_mini_batches_with_fillers(inputs, targets, SIZE), rows, populations, **options
    )
    for row, outcome in zip(rows, results, strict=True):
        expected = plain_losses(network, inputs, targets, populations, row)
        np.testing.assert_allclose(outcome.losses, expected, rtol=tolerance, atol=tolerance, err_msg=str(row))
