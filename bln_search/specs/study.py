"""A study: data, network, arms, training, seeds, and what is evaluated."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, field_validator, model_validator

from bln_search.core.configuration import InferenceConfiguration, Method, mini_batch_configuration
from bln_search.core.words import Correction, PopulationEstimate, Semantics, Split
from bln_search.specs.base import Spec
from bln_search.specs.data import DataSpec
from bln_search.specs.training import TrainingSpec


def _configuration(value: Any) -> Any:
    return InferenceConfiguration(value) if isinstance(value, str) else value


ConfigurationWord = Annotated[
    InferenceConfiguration, BeforeValidator(_configuration), PlainSerializer(str, return_type=str)
]


class ModelSpec(Spec):
    """A network by name, with its options."""

    name: str = Field(min_length=1, max_length=64)
    widths: tuple[Annotated[int, Field(ge=1, le=65_536)], ...] | None = Field(default=None, min_length=1, max_length=32)


class ArmSpec(Spec):
    """One way of normalizing the network.

    judged_under: the configuration under which epochs are compared for `best_validation`; by default the mini-batch's
    own statistics throughout. population: the estimates evaluated for this arm instead of the study's.
    momentum: decay of the `moving` estimate.
    """

    method: Method
    name: str | None = Field(default=None, pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")
    semantics: Semantics = Semantics.PAPER
    epsilon: Annotated[float, Field(gt=0, le=1)] | None = None
    momentum: Annotated[float, Field(gt=0, lt=1)] = 0.99
    judged_under: ConfigurationWord | None = None
    population: tuple[PopulationEstimate, ...] | None = Field(default=None, min_length=1)

    @property
    def label(self) -> str:
        """What the arm is called: its name, else its method."""
        return self.name or self.method.value

    @property
    def judge(self) -> InferenceConfiguration:
        """The configuration under which epochs are compared."""
        return self.judged_under or mini_batch_configuration(self.method)

    @field_validator("population")
    @classmethod
    def _once(cls, value: tuple[PopulationEstimate, ...] | None) -> tuple[PopulationEstimate, ...] | None:
        if value is not None and len(set(value)) < len(value):
            raise ValueError("population names a value twice: each counts once")
        return value

    @model_validator(mode="after")
    def _judge_fits(self) -> ArmSpec:
        if self.judge.method is not self.method:
            raise ValueError(
                f"judged_under {self.judge} names the statistics of {self.judge.method}, the arm is {self.method}: "
                f"write it like {mini_batch_configuration(self.method)}"
            )
        return self


class EvaluationSpec(Spec):
    """What each trained network is evaluated under.

    population: estimates; configurations that read no population value are evaluated once.
    batch_sizes: inference mini-batch sizes; by default the training one.
    per_slot: keep feature populations one a slot of the mini-batch, as the authors' code does, instead of pooled.
    """

    population: tuple[PopulationEstimate, ...] = Field(default=(PopulationEstimate.FROZEN,), min_length=1)
    correction: Correction = Correction.BESSEL
    per_slot: bool = False
    batch_sizes: tuple[Annotated[int, Field(ge=1, le=1_000_000)], ...] | None = Field(default=None, min_length=1)


class RankingSpec(Spec):
    """Which split decides the order. Ranking on test is for comparing with published tables, and says so."""

    split: Split = Split.VALIDATION

    @model_validator(mode="after")
    def _not_on_training(self) -> RankingSpec:
        if self.split is Split.TRAIN:
            raise ValueError("rank on validation (or on test, to compare with published tables), not on train")
        return self


class StudySpec(Spec):
    """One study file."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")
    title: str = Field(default="", max_length=300)
    data: DataSpec
    model: ModelSpec
    arms: tuple[ArmSpec, ...] = Field(min_length=1, max_length=64)
    training: TrainingSpec = TrainingSpec()
    seeds: tuple[Annotated[int, Field(ge=0, lt=2**32)], ...] = Field(default=(0, 1, 2), min_length=1, max_length=1000)
    evaluation: EvaluationSpec = EvaluationSpec()
    ranking: RankingSpec = RankingSpec()

    @model_validator(mode="after")
    def _consistent(self) -> StudySpec:
        labels = [arm.label for arm in self.arms]
        twice = {label for label in labels if labels.count(label) > 1}
        if twice:
            raise ValueError(f"two arms are called {', '.join(sorted(twice))}: give each a `name` of its own")
        for what, values in (("seeds", self.seeds), ("population", self.evaluation.population)):
            if len(set(values)) < len(values):
                raise ValueError(f"{what} names a value twice: each counts once")
        if self.evaluation.batch_sizes and len(set(self.evaluation.batch_sizes)) < len(self.evaluation.batch_sizes):
            raise ValueError("batch_sizes names a value twice: each counts once")
        for arm in self.arms:
            self._check_judge(arm)
        return self

    def _check_judge(self, arm: ArmSpec) -> None:
        estimates = arm.population or self.evaluation.population
        during = [estimate for estimate in estimates if estimate.gathered_in_training]
        if arm.judge.uses_population and not during:
            raise ValueError(
                f"arm {arm.label} is judged under {arm.judge}, which reads population values during training: "
                "add the estimate `epoch` or `moving` to its population"
            )

    @property
    def canonical(self) -> str:
        """The study as JSON with every default written out and keys sorted."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON."""
        return hashlib.sha256(self.canonical.encode()).hexdigest()
