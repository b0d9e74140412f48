"""The variants of a check that are configurations, as a ranked table."""

from __future__ import annotations

from bln_search.api.check.variants import VariantMeasurements
from bln_search.api.inputs.score import describe_score, last_score_had_correctness
from bln_search.api.ranked.table import RankedConfigurations
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.evaluation.split_evaluation import make_evaluations
from bln_search.norms.row_batching.row_tensor import InferenceRow
from bln_search.ranking.leaderboard import build_leaderboard_from_evaluations
from bln_search.ranking.network_check import Variant
from bln_search.ranking.row_results import TrialEvaluation

_POPULATION, _MINI_BATCH = InferenceConfiguration("TT--"), InferenceConfiguration("FF--")
_ROWS = {
    Variant.DEPLOYED: InferenceRow(_POPULATION, PopulationEstimate.MOVING),
    Variant.RE_ESTIMATED: InferenceRow(_POPULATION, PopulationEstimate.FROZEN),
    Variant.RE_ESTIMATED_ON_TARGET: InferenceRow(_POPULATION, "target"),
    Variant.RE_ESTIMATED_ON_VALIDATION: InferenceRow(_POPULATION, "validation"),
    Variant.MINI_BATCH: InferenceRow(_MINI_BATCH, None),
}
"""The row of each variant that is a configuration of BN."""


def rank_variants(variants: VariantMeasurements) -> RankedConfigurations:
    """The ranked table of the variants that are configurations of BN. Its rows have no population values."""
    measured = variants.measured
    has_accuracy = last_score_had_correctness(measured.score)
    evaluations = [
        evaluation
        for (variant, size), outcomes in variants.outcomes.items()
        if variant in _ROWS
        for evaluation in make_evaluations(
            [_ROWS[variant]], [outcomes], split=Split.VALIDATION, batch_size=size, has_accuracy=has_accuracy
        )
    ]
    return RankedConfigurations(
        board=build_leaderboard_from_evaluations(
            TrialEvaluation(arm="network", seed=0, evaluation=evaluation) for evaluation in evaluations
        ),
        populations={},
        outcomes={each.key: each.outcomes for each in evaluations if each.outcomes is not None},
        deployed=_ROWS[Variant.DEPLOYED],
        has_accuracy=has_accuracy,
        score=describe_score(measured.score),
        examples_by_loader={measured.name: measured.num_examples},
    )
