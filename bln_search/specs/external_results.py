"""Results of networks that were trained and evaluated elsewhere, as they are submitted to a service."""

from __future__ import annotations

import base64
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from bln_search.core.enums import Split
from bln_search.core.method import Method
from bln_search.core.names import CONDITION_PATTERN, NAME_PATTERN
from bln_search.core.records import EvaluationKey
from bln_search.core.states import EvaluationState
from bln_search.specs.sections.arm import ArmSpec
from bln_search.specs.sections.data import DataSpec
from bln_search.specs.sections.evaluation import EvaluationSpec, RankingSpec
from bln_search.specs.sections.external import (
    EXTERNAL_ARM,
    ConditionName,
    Examples,
    ExternalBaseline,
    ExternalInferenceRow,
    ExternalLossDescription,
    ExternalNetwork,
    ExternalSpec,
    Text,
)
from bln_search.specs.sections.model import ModelSpec
from bln_search.specs.spec_section import SpecSection, Storable, Unique
from bln_search.specs.study import StudySpec

_MOST_EVALUATIONS = 100_000

Encoded = Annotated[str, StringConstraints(max_length=400_000_000)]
"""Bytes in base64."""


class ExternalEvaluation(ExternalInferenceRow):
    """One network under one configuration.

    Attributes:
        network: Position of the network in `networks`.
        configuration: Four letters, like `TTFF`.
        estimate: Population estimate; null if the configuration reads no population value.
        batch_size: Inference mini-batch size.
        split: `validation` or `test`.
        condition: One of `conditions`; empty for the condition that ranks.
        state: `measured`, `undefined` or `diverged`.
        reason: Why it has no value; null if it was measured.
        loss: Mean loss over the examples; null unless measured.
        losses: Loss of each example: little-endian float32, deflated (zlib), in base64; null unless measured.
        correct: Whether the prediction is correct: one bit for each example, the first one highest, in base64; null
            unless measured, and for a score without accuracy.
    """

    added_later = frozenset({"condition"})

    network: Annotated[int, Field(ge=0, lt=1000)]
    batch_size: Annotated[int, Field(ge=1, le=1_000_000)]
    split: Literal[Split.VALIDATION, Split.TEST]
    condition: Annotated[str, StringConstraints(pattern=f"^$|{CONDITION_PATTERN}")] = ""
    state: EvaluationState
    reason: Annotated[str, StringConstraints(min_length=1, max_length=2000), Storable] | None = None
    loss: float | None = None
    losses: Encoded | None = Field(default=None, repr=False)
    correct: Encoded | None = Field(default=None, repr=False)

    @property
    def key(self) -> EvaluationKey:
        """Configuration, estimate, batch size, split and condition."""
        return EvaluationKey(self.configuration, self.estimate, self.batch_size, self.split, self.condition)

    @model_validator(mode="after")
    def _check_estimate_and_state(self) -> ExternalEvaluation:
        if self.configuration.uses_population != (self.estimate is not None):
            expected = "an estimate" if self.configuration.uses_population else "no estimate"
            raise ValueError(f"the configuration {self.configuration} needs {expected}, not {self.estimate}")
        is_measured = self.state is EvaluationState.MEASURED
        if is_measured and None in (self.loss, self.losses):
            raise ValueError("a measured evaluation needs `loss` and `losses`")
        if not is_measured and self.reason is None:
            raise ValueError(f"an evaluation that is {self.state} needs a `reason`")
        if not is_measured and (self.loss, self.losses, self.correct) != (None, None, None):
            raise ValueError(f"an evaluation that is {self.state} has neither `loss`, `losses` nor `correct`")
        return self


class ExternalResults(SpecSection):
    """Results of networks of one's own, as `ranked.to_external_results` returns them.

    Attributes:
        format: Version of this format.
        name: Name of the study.
        title: Title for display.
        method: Normalization method whose configurations were evaluated.
        data: Name of the data for display.
        model: Name of the architecture for display.
        networks: The networks, trained alike.
        examples: Number of examples of each evaluated split; their order is the same in all evaluations.
        ranked_on: The split that ranks.
        per_slot: Whether feature populations have a value for each slot of the mini-batch.
        class_prior: What predicting the class frequencies reaches; null if targets are not classes.
        deployed: The row under which the networks compute their original outputs; null if there is none.
        ranking_condition: Name of the condition whose loss ranks the rows, for display; empty without conditions.
        conditions: Further conditions by name, with their numbers of examples of each split. Every row is evaluated
            under each; they do not rank the rows.
        score: The loss, if it is not the cross-entropy of a classification.
        evaluations: Every evaluation, each once.
    """

    added_later = frozenset({"ranking_condition", "conditions", "score"})

    format: Annotated[int, Field(ge=1, le=1)] = 1
    name: str = Field(pattern=NAME_PATTERN)
    title: Annotated[str, StringConstraints(max_length=300), Storable] = ""
    method: Method
    data: Text = "external"
    model: Text = "external"
    networks: Annotated[tuple[ExternalNetwork, ...], Unique] = Field(min_length=1, max_length=1000)
    examples: Examples
    ranked_on: Literal[Split.VALIDATION, Split.TEST] = Split.VALIDATION
    per_slot: bool = False
    class_prior: ExternalBaseline | None = None
    deployed: ExternalInferenceRow | None = None
    ranking_condition: Annotated[str, StringConstraints(pattern=f"^$|{CONDITION_PATTERN}")] = ""
    conditions: dict[ConditionName, Examples] = Field(default={}, max_length=64)
    score: ExternalLossDescription | None = None
    evaluations: tuple[ExternalEvaluation, ...] = Field(min_length=1, max_length=_MOST_EVALUATIONS)

    @model_validator(mode="after")
    def _check_ranking_condition(self) -> ExternalResults:
        if self.conditions and self.ranking_condition in ("", *self.conditions):
            raise ValueError("with `conditions`, `ranking_condition` names another one, whose loss ranks the rows")
        return self

    @property
    def has_accuracy(self) -> bool:
        """Whether evaluations say of each example if the prediction is correct."""
        return self.score is None or self.score.has_accuracy

    def num_examples_by_split(self, condition: str) -> Examples:
        """The number of examples of each split under a condition; empty for the one that ranks. Raises KeyError."""
        return self.conditions[condition] if condition else self.examples

    def make_study_spec(self, results_sha256: str) -> StudySpec:
        """The specification of a study with these results; its seed i is network i.

        Args:
            results_sha256: Digest of all evaluations with their per-example outcomes.
        """
        batch_sizes = sorted({evaluation.batch_size for evaluation in self.evaluations})
        return StudySpec(
            name=self.name,
            title=self.title,
            data=DataSpec(name=self.data),
            model=ModelSpec(name=self.model),
            arms=(ArmSpec(method=self.method, name=EXTERNAL_ARM),),
            seeds=tuple(range(len(self.networks))),
            evaluation=EvaluationSpec(per_slot=self.per_slot, batch_sizes=tuple(batch_sizes)),
            ranking=RankingSpec(split=self.ranked_on),
            external=ExternalSpec(
                networks=self.networks,
                examples=dict(self.examples),
                results_sha256=results_sha256,
                class_prior=self.class_prior,
                deployed=self.deployed,
                ranking_condition=self.ranking_condition,
                conditions={name: dict(examples) for name, examples in self.conditions.items()},
                score=self.score,
            ),
        )


def encode_base64(content: bytes) -> str:
    """The bytes in base64, as in `ExternalEvaluation`."""
    return base64.b64encode(content).decode()
