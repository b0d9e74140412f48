"""The two experiments of the BLN paper, from experiments.yaml: published tables, and our studies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True)
class Experiment:
    """An experiment.

    Attributes:
        table: Table of the paper.
        result: Name of the result file.
        published: The sixteen configurations by amount of training data, best first: one seed, ranked on test.
        figures: Test loss and accuracy of the published first row, of BN and of LN, if published.
        studies: Published order that each study is compared with; None if none was published.
    """

    table: str
    result: str
    published: dict[str, tuple[str, ...]]
    figures: dict[str, dict[str, tuple[float, float]]]
    studies: dict[str, str | None]


def _read_experiments() -> dict[str, Experiment]:
    document = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    for fields in document.values():
        fields["published"] = {size: tuple(codes.split()) for size, codes in fields["published"].items()}
    return {name: Experiment(**fields) for name, fields in document.items()}


EXPERIMENTS = _read_experiments()
