"""Probes as records."""

from __future__ import annotations

from collections.abc import Sequence

from bln_search.cli.output import RecordsFormat
from bln_search.cli.records import print_records
from bln_search.core.enums import ProbeKind
from bln_search.ranking.probe_results import TrialProbe
from bln_search.specs.sections.evaluation import ProbesSpec

_COLUMNS = (
    *("arm", "parameters", "seed", "kind", "configuration", "population", "batch_size", "split"),
    *("examples", "loss", "accuracy", "deviation", "flips"),
)


def print_measured_probes(probes: Sequence[TrialProbe], measured: ProbesSpec, output_format: RecordsFormat) -> None:
    """Print the probes of the kinds that were measured.

    Args:
        probes: Every probe of the study.
        measured: What was measured.
        output_format: The format.
    """
    kinds = {
        *([ProbeKind.SIZE] if measured.batch_sizes else []),
        *([ProbeKind.RESHUFFLED, ProbeKind.SKEWED] if measured.reshuffles else []),
    }
    records = [_probe_to_record(probe) for probe in probes if probe.probe.kind in kinds]
    has_accuracy = any(probe.probe.accuracy is not None for probe in probes)
    columns = [column for column in _COLUMNS if has_accuracy or column != "accuracy"]
    print_records(records, columns, output_format)


def _probe_to_record(trial_probe: TrialProbe) -> dict[str, object]:
    probe = trial_probe.probe
    return {
        "arm": trial_probe.arm,
        "parameters": trial_probe.point or None,
        "seed": trial_probe.seed,
        "kind": probe.kind,
        "configuration": str(probe.key.configuration),
        "population": probe.key.estimate,
        "batch_size": probe.key.batch_size,
        "split": probe.key.split,
        "examples": probe.n,
        "loss": probe.loss,
        **({} if probe.accuracy is None else {"accuracy": probe.accuracy}),
        "deviation": probe.deviation,
        "flips": probe.flips,
    }
