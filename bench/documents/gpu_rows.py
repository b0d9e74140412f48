"""Rows of the table of benchmarks that were measured on a GPU, from bench/results."""

from __future__ import annotations

from bench.documents.figure_row import Row, spread_text
from bench.support.reporting import read_result

_NETWORKS = {"lenet": "LeNet", "mlp": "MLP 64-128-64-10"}
_OPTIONS = ("fused_norms", "tf32", "bf16", "compile")


def gpu_rows() -> list[Row]:
    """Return the rows of trials that are trained as one program, and of options of training."""
    return [*_fused_training(), *_training_options()]


def _fused_training() -> list[Row]:
    saved = read_result("fused_training_gpu")
    if saved is None:
        return []
    rows = []
    for network, name in _NETWORKS.items():
        speedup = saved["result"]["networks"][network]["64"]["speedup_recorded"]
        what = f"A training step of 64 networks as one program with a recorded step, {name}, over one after another"
        figure = f"{spread_text(speedup)} times faster ({saved['provenance']['hardware']})"
        standalone = (
            f"Training 64 networks as one program on a GPU, {name}, over one after another"
            if network == "lenet"
            else None
        )
        rows.append(Row(what, figure, "fused_training_gpu", standalone=standalone))
    return rows


def _training_options() -> list[Row]:
    saved = read_result("training_step_gpu")
    if saved is None:
        return []
    measured = saved["result"]["options"]
    ratios = ", ".join(
        f"`{name}` {spread_text(measured[name]['ratio'])}" for name in _OPTIONS if "ratio" in measured.get(name, {})
    )
    return [
        Row(
            "Training steps per second of LeNet by an option of `training`, over the plain step",
            f"{ratios} times ({saved['provenance']['hardware']})",
            "training_step_gpu",
        )
    ]
