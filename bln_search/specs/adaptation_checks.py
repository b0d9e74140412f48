"""Whether the arms of adaptation of a study can run over its streams."""

from __future__ import annotations

from collections.abc import Sequence

from bln_search.core.built_in_adaptations import NONE
from bln_search.core.method import StatisticSource
from bln_search.core.streams import StreamMixture
from bln_search.specs.sections.adaptation import AdaptationSpec
from bln_search.specs.sections.arm import ArmSpec
from bln_search.specs.sections.evaluation import EvaluationSpec
from bln_search.specs.sections.stream import StreamSpec

DEFAULT_ARMS = (AdaptationSpec(name=NONE, configuration="T"), AdaptationSpec(name=NONE, configuration="F"))
"""Of a study with streams that names no arm of adaptation: the statistics of the population, and of the mini-batch."""


def check_arms_of_adaptation(
    stream: StreamSpec, arms: Sequence[AdaptationSpec], evaluation: EvaluationSpec, *, per_slot: bool
) -> None:
    """Raise ValueError where two arms have one label, or a study cannot run the streams.

    Args:
        stream: The streams.
        arms: The arms of adaptation.
        evaluation: Its conditions are those of the streams.
        per_slot: Whether the population of features has a value for each slot of the mini-batch.
    """
    if per_slot:
        raise ValueError("stream: mini-batches of a stream have no slots as those of training: remove per_slot")
    if evaluation.lengths and stream.mixture is StreamMixture.MIXED:
        raise ValueError("stream: texts of several lengths cannot be in one mini-batch: choose another mixture")
    labels = [arm.display_label for arm in arms]
    repeated = {label for label in labels if labels.count(label) > 1}
    if repeated:
        raise ValueError(f"adaptation: two arms are called {', '.join(sorted(repeated))}: give each a `label`")
    with_candidates = [arm.display_label for arm in arms if arm.candidates]
    if with_candidates:
        raise ValueError(
            f"adaptation: {with_candidates[0]} has candidates, and a study does not select among them: write an arm "
            "for each value, or select with `bln_search.evaluate_streams`, in Python"
        )


def check_configurations_fit_arm(adaptations: Sequence[AdaptationSpec], arm: ArmSpec) -> None:
    """Raise ValueError where an arm with statistics has no such configuration, or no value for one of its letters."""
    if not arm.method.statistics:
        return
    letters = {letter for configuration in arm.evaluated_configurations_without_blends for letter in configuration.code}
    letters |= {source.value for source in StatisticSource if source.description.has_row_weight}
    for adaptation in adaptations:
        try:
            configuration = adaptation.make_configuration(arm.method)
        except ValueError as error:
            raise ValueError(f"adaptation: {adaptation.display_label}: arm {arm.label}: {error}") from None
        unknown = set(configuration.code) - letters
        if unknown:
            raise ValueError(
                f"adaptation: {adaptation.display_label}: the arm {arm.label} has no value for the letter "
                f"{min(unknown)}: choose among {', '.join(sorted(letters - {StatisticSource.ABSENT.value}))}"
            )
