"""Probes are printed as records, of the kinds that were measured."""

from __future__ import annotations

import json

import pytest

from bln_search.cli.output import RecordsFormat
from bln_search.cli.studies.results.analysis import print_measured_probes
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, ProbeKind, Split
from bln_search.core.records import EvaluationKey, ProbeResult
from bln_search.ranking.probe_results import TrialProbe
from bln_search.specs.sections.evaluation import ProbesSpec


def probe(kind):
    key = EvaluationKey(InferenceConfiguration("TTTT"), PopulationEstimate.FROZEN, 4, Split.VALIDATION)
    return TrialProbe("bln", "", 1, ProbeResult(kind, 0, key, 9, 0.5, 0.75, flips=0.25))


@pytest.mark.parametrize(
    ("measured", "kinds"),
    [
        (ProbesSpec(batch_sizes=(4,)), ["size"]),
        (ProbesSpec(reshuffles=2), ["reshuffled", "skewed"]),
        (ProbesSpec(batch_sizes=(4,), reshuffles=2), ["size", "reshuffled", "skewed"]),
    ],
)
def test_measured_kinds_are_printed(measured, kinds, capsys):
    print_measured_probes([probe(kind) for kind in ProbeKind], measured, RecordsFormat.JSON)
    printed = json.loads(capsys.readouterr().out)
    assert sorted(record["kind"] for record in printed) == sorted(kinds)
    assert {(record["configuration"], record["batch_size"], record["flips"]) for record in printed} == {
        ("TTTT", 4, 0.25)
    }
