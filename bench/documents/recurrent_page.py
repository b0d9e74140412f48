"""Tables of docs/recurrent_gain.md: texts of another length, and the initial γ inside LSTM cells.

`python -m bench.documents.recurrent_page --write` writes them into the page, from bench/results.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from bench.documents.marked_block import run_block_command
from bench.documents.plain_page import interval_text
from bench.support.reporting import RESULTS
from bln_search.ranking.statistics.intervals import adjust_p_values_by_holm, paired_t_test_p_value_of_differences

PAGE = Path(__file__).parents[2] / "docs" / "recurrent_gain.md"
BLOCK = "recurrent_gain"
STUDIES = ("recurrent_gain_imdb", "recurrent_gain_imdb_20pct")
_LENGTH = "length-160"
_GAINS = ("1", "0.1")
_ROWS = (("ln", "--FF", "-"), ("bn", "TT--", "frozen"), ("bn", "FF--", "-"))
"""Arms, configurations and population estimates that the page compares."""

_LENGTH_COLUMNS = (
    *("arm", "γ", "row", "test loss, 80 words", "test loss, 160 words", "change of the loss", "p"),
    *("accuracy %, 80 words", "accuracy %, 160 words"),
)
_GAIN_COLUMNS = ("arm", "row", "test loss, γ = 1", "test loss, γ = 0.1", "difference", "p")


def block() -> str:
    """Both tables of each study, with hardware and versions of the measurement."""
    return "\n".join(line for name in STUDIES for line in _study_lines(name))


def _study_lines(name: str) -> list[str]:
    study = json.loads((RESULTS / f"{name}.json").read_text())
    origin, spec = study["written"], study["spec"]
    where = f"{origin['hardware']}, torch {origin['versions']['torch']}, {origin['date'][:10]}"
    epochs = study["kept_epochs"].values()
    return [
        f"**`{name}`**: {100 * spec['data']['fraction']:g} % of the training set, learning rate "
        f"{spec['training']['learning_rate']:g}; kept epochs {min(epochs)} to {max(epochs)}, median {median(epochs):g} "
        f"(`bench/results/{name}.json`; {where}).",
        "",
        *_length_table(study),
        "",
        *_gain_table(study),
        "",
    ]


def _length_table(study: dict[str, Any]) -> list[str]:
    """Loss at the length of training and at twice that length."""
    rows = [
        ("none", "1", "----", "-"),
        *((arm, gain, code, estimate) for gain in _GAINS for arm, code, estimate in _ROWS),
    ]
    values = {row: (_values(study, row), _values(study, row, _LENGTH)) for row in rows}
    changes = [_differences(after, before) for before, after in values.values()]
    adjusted = adjust_p_values_by_holm([paired_t_test_p_value_of_differences(change) or 1.0 for change in changes])
    lines = _heading(_LENGTH_COLUMNS)
    for (row, (before, after)), change, p in zip(values.items(), changes, adjusted, strict=True):
        arm, gain, code, _ = row
        lines.append(
            f"| {arm} | {'–' if arm == 'none' else gain} | `{code}` | {_losses(before)} | {_losses(after)} | "
            f"{interval_text(change)} | {p:.2g} | {_accuracies(before)} | {_accuracies(after)} |"
        )
    return lines


def _gain_table(study: dict[str, Any]) -> list[str]:
    """Loss with both initial values of γ, at the length of training."""
    values = {
        (arm, code): [_values(study, (arm, gain, code, estimate)) for gain in _GAINS] for arm, code, estimate in _ROWS
    }
    differences = [_differences(small, one) for one, small in values.values()]
    adjusted = adjust_p_values_by_holm(
        [paired_t_test_p_value_of_differences(difference) or 1.0 for difference in differences]
    )
    lines = _heading(_GAIN_COLUMNS)
    for ((arm, code), (one, small)), difference, p in zip(values.items(), differences, adjusted, strict=True):
        lines.append(
            f"| {arm} | `{code}` | {_losses(one)} | {_losses(small)} | {interval_text(difference)} | {p:.2g} |"
        )
    return lines


def _heading(columns: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]


def _values(study: dict[str, Any], row: tuple[str, str, str, str], condition: str = "") -> list[list[float]]:
    """Test loss and accuracy of a row in the order of the seeds."""
    arm, gain, code, estimate = row
    rows = study["loss_and_accuracy_by_condition"][condition] if condition else study["loss_and_accuracy_by_seed"]
    by_seed = rows[f"{arm} gain={gain} {code} {estimate} {study['spec']['training']['batch_size']}"]
    return [by_seed[f"test seed {seed}"] for seed in study["spec"]["seeds"]]


def _differences(values: list[list[float]], base: list[list[float]]) -> list[float]:
    return [value[0] - other[0] for value, other in zip(values, base, strict=True)]


def _losses(values: list[list[float]]) -> str:
    losses = [value[0] for value in values]
    return f"{fmean(losses):.4f} ± {stdev(losses):.4f}"


def _accuracies(values: list[list[float]]) -> str:
    return f"{fmean(100 * value[1] for value in values):.2f}"


if __name__ == "__main__":
    run_block_command(__doc__, PAGE, BLOCK, block)
