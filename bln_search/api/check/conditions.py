"""The network under another condition: the same variants on other inputs."""

from __future__ import annotations

from dataclasses import replace

from bln_search.api.check.calibration import calibrate_in_stages
from bln_search.api.check.variants import VariantMeasurements, compare_variants
from bln_search.api.inputs.loaders import RoleLoader
from bln_search.api.inputs.score import last_score_had_correctness
from bln_search.ranking.network_check import CheckedCondition, Variant, decide


def check_condition(name: str, variants: VariantMeasurements, loader: RoleLoader, margin: float) -> CheckedCondition:
    """Measure the variants on the mini-batches of a condition, and how many of its inputs suffice for statistics.

    Raises:
        DataError: The loader does not fit the network.
    """
    adapter, score = variants.measured.adapter, variants.measured.score
    batches = list(adapter.iter_input_target_pairs(loader, score))
    measured = replace(variants.measured, batches=batches, name=loader.name)
    own = VariantMeasurements(measured, variants.training, variants.readings, variants.target)
    own.measure_all(())
    rows = compare_variants(own, has_correctness=last_score_had_correctness(score))
    verdict, chosen = decide(rows, margin)
    calibration = None
    if any(row.variant is Variant.RE_ESTIMATED_ON_VALIDATION and row.loss is not None for row in rows):
        inputs = (each for each, _ in batches)
        calibration = calibrate_in_stages(measured, inputs, loader.name, margin).calibration
    return CheckedCondition(
        name=name,
        examples=measured.num_examples,
        verdict=verdict,
        chosen=chosen,
        variants=tuple(rows),
        calibration=calibration,
    )
