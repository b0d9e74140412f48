"""A small study of each built-in task, on data that need no files; a classification with metrics of calibration."""

from __future__ import annotations

from pathlib import Path

import pytest

from bln_search.core.tasks import TaskName
from bln_search.specs.study import StudySpec
from bln_search_papers.ln import mnist_pair_captions
from tests.data.reviews import make_reviews, write_lines
from tests.support.mnist_files import use_small_mnist

STUDIES = {
    TaskName.CLASSIFICATION: """
data: {name: digits, validation: 200}
model: {name: mlp, widths: [8]}
arms: [{method: bn}]
evaluation: {metrics: [brier, ece]}
""",
    TaskName.REGRESSION: """
data: {name: diabetes, validation: 80}
model: {name: mlp, widths: [8]}
arms: [{method: bln}]
""",
    TaskName.TOKEN_CLASSIFICATION: """
data: {name: imdb_case, validation: 9}
model: {name: gru, widths: [6, 5], embedding: 7, dense: 4}
arms: [{method: bln}]
""",
    TaskName.MULTI_LABEL: """
data: {name: mnist_pair_digits, validation: 0.1, fraction: 0.002}
model: {name: mlp, widths: [8]}
arms: [{method: bn}]
""",
    TaskName.LANGUAGE_MODEL: """
data: {name: imdb_next_word, validation: 9}
model: {name: gru, widths: [6, 5], embedding: 7, dense: 4}
arms: [{method: bn}]
""",
    TaskName.DENSITY: """
data: {name: mnist_binarized, validation: 400, fraction: 0.06, standardization: none}
model: {name: draw, widths: [6, 5], glimpses: 3, latent: 4, normalize: cells}
arms: [{method: bln}]
""",
    "language model with normalized cells": """
data: {name: imdb_next_word, validation: 9}
model: {name: gru, widths: [6, 5], embedding: 7, dense: 4, normalize: cells}
arms: [{method: bn}]
""",
    "density of pen tracks": """
data: {name: mnist_pen_tracks, validation: 0.2, fraction: 0.2, standardization: none}
model: {name: handwriting, widths: [6, 5], windows: 2, mixtures: 3}
arms: [{method: bln}]
""",
    "retrieval": """
task: {name: retrieval, similarity: order, margin: 0.05}
data: {name: mnist_pair_captions, validation: 10}
model: {name: order_embeddings, widths: [2, 3, 5], embedding: 4}
arms: [{method: bln}]
""",
}


def prepare_data_of_study(study: StudySpec, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Write made-up reviews into a folder of data sets, and let digits of scikit-learn stand for MNIST."""
    if study.data.name.startswith("imdb"):
        write_lines(folder / "imdb", make_reviews(per_class=10))
    use_small_mnist(patch)
    patch.setattr(mnist_pair_captions, "TRAIN_PER_CLASS", 3)  # pairs of digits in place of 500
    patch.setattr(mnist_pair_captions, "TEST_PER_CLASS", 2)
