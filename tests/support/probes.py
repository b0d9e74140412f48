"""Probes for the ledger."""

from __future__ import annotations

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, ProbeKind, Split
from bln_search.core.records import EvaluationKey, ProbeResult


def probe(kind=ProbeKind.SIZE, batch_size=4, code="TTFF", epoch=0, **options):
    estimate = PopulationEstimate.FROZEN if "T" in code else None
    key = EvaluationKey(InferenceConfiguration(code), estimate, batch_size, Split.VALIDATION)
    return ProbeResult(kind, epoch, key, 9, 0.5, 0.25, **options)


def store_probes(ledger, trial, *probes):
    kinds = {stored_probe.kind for stored_probe in probes}
    ledger.probes.replace_probes(trial.id, trial.checkpoint.sha256, kinds, probes)
