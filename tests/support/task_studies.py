"""A small study of each built-in task other than classification, on data that need no files."""

from __future__ import annotations

from pathlib import Path

import pytest

from bln_search.core.tasks import TaskName
from tests.data.reviews import make_reviews, write_lines
from tests.support.mnist_files import use_small_mnist

STUDIES = {
    TaskName.REGRESSION: """
data: {name: diabetes, validation: 80}
model: {name: mlp, widths: [8]}
arms: [{method: bln}]
""",
    TaskName.TOKEN_CLASSIFICATION: """
data: {name: imdb_case, validation: 20}
model: {name: gru, widths: [6, 5], embedding: 7, dense: 4}
arms: [{method: bln}]
""",
    TaskName.MULTI_LABEL: """
data: {name: mnist_pair_digits, validation: 0.1, fraction: 0.002}
model: {name: mlp, widths: [8]}
arms: [{method: bn}]
""",
    TaskName.LANGUAGE_MODEL: """
data: {name: imdb_next_word, validation: 20}
model: {name: gru, widths: [6, 5], embedding: 7, dense: 4, normalize: cells}
arms: [{method: bn}]
""",
    TaskName.DENSITY: """
data: {name: mnist_binarized, validation: 400, fraction: 0.06, standardization: none}
model: {name: draw, widths: [6, 5], glimpses: 3, latent: 4, normalize: cells}
arms: [{method: bln}]
""",
    TaskName.RETRIEVAL: """
task: {name: retrieval, similarity: order, margin: 0.05}
data: {name: mnist_pair_captions, validation: 2000, fraction: 0.01}
model: {name: order_embeddings, widths: [2, 3, 5], embedding: 4}
arms: [{method: bln}]
""",
}


def prepare_data_of_task(task: TaskName, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Write made-up reviews into a folder of data sets, or let digits of scikit-learn stand for MNIST."""
    if task.predicts_tokens:
        write_lines(folder / "imdb", make_reviews())
    use_small_mnist(patch)
