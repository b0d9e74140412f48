"""A study: data, network, arms, training, seeds, what is searched and what is evaluated."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from bln_search.core.enums import NAME, Correction, PopulationEstimate, Split
from bln_search.core.registry import WORDS
from bln_search.specs.arm import ArmSpec, asked_for
from bln_search.specs.base import Spec, check_writable, each_once
from bln_search.specs.data import DataSpec, Standardization
from bln_search.specs.layer_search import LayersSpec
from bln_search.specs.search import Sampler, SearchSpec, wanted_points
from bln_search.specs.space import SECTIONS, ChoiceDimension, Space
from bln_search.specs.training import TrainingSpec

BatchSizes = Annotated[
    tuple[Annotated[int, Field(ge=1, le=1_000_000)], ...],
    Field(min_length=1, max_length=64),
    AfterValidator(partial(each_once, name="batch_sizes")),
]
"""Inference mini-batch sizes, each once."""


class ModelSpec(Spec):
    """A network by name, with its options.

    widths: of the hidden layers. activation, placement: of an mlp, its nonlinearity and where its normalization layers
    stand, `after` the nonlinearity (the default) or `before` it. embedding, dense: sizes in a recurrent network.
    dense_weights: how its dense layers are drawn first.
    dropout, recurrent_dropout: of the inputs and of the hidden states of its recurrent layers, a fraction. normalize:
    behind its recurrent layers and its dense one, or inside the recurrent cells at every time step; gain: what γ starts
    at there.
    """

    added_later = frozenset(
        {
            "activation",
            "placement",
            "embedding",
            "dense",
            "dense_weights",
            "dropout",
            "recurrent_dropout",
            "normalize",
            "gain",
        }
    )

    name: str = Field(min_length=1, max_length=64)
    widths: tuple[Annotated[int, Field(ge=1, le=65_536)], ...] | None = Field(default=None, min_length=1, max_length=32)
    activation: Literal["tanh", "relu"] | None = None
    placement: Literal["after", "before"] | None = None
    embedding: Annotated[int, Field(ge=1, le=65_536)] | None = None
    dense: Annotated[int, Field(ge=1, le=65_536)] | None = None
    dense_weights: Literal["glorot", "orthogonal"] | None = None
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = None
    recurrent_dropout: Annotated[float, Field(ge=0, lt=1)] | None = None
    normalize: Literal["layers", "cells"] | None = None
    gain: Annotated[float, Field(gt=0, le=1_000)] | None = None

    @model_validator(mode="after")
    def _gain_of_cells(self) -> ModelSpec:
        if self.gain is not None and self.normalize != "cells":
            raise ValueError("gain is of the normalization inside recurrent cells: it needs normalize: cells")
        return self

    @property
    def largest_width(self) -> int:
        """Units of the widest layer that the study asks for; 0 where it asks for none."""
        return max([*(self.widths or ()), self.embedding or 0, self.dense or 0])


class EvaluationSpec(Spec):
    """What each trained network is evaluated under.

    population: estimates; configurations that read no population value are evaluated once.
    batch_sizes: inference mini-batch sizes; by default the training one.
    per_slot: keep feature populations one a slot of the mini-batch, as the authors' code does, instead of pooled.
    """

    population: tuple[PopulationEstimate, ...] = Field(default=(PopulationEstimate.FROZEN,), min_length=1, max_length=8)
    correction: Correction = Correction.BESSEL
    per_slot: bool = False
    batch_sizes: BatchSizes | None = None

    @field_validator("population")
    @classmethod
    def _not_the_memory(cls, value: tuple[PopulationEstimate, ...]) -> tuple[PopulationEstimate, ...]:
        return asked_for(each_once(value, "population"))


class ProbesSpec(Spec):
    """What is measured of each trained network beside the leaderboard, without training again.

    batch_sizes: inference mini-batch sizes. epochs: the network after every so many epochs; its weights are kept.
    reshuffles: how often the examples are put into other mini-batches; those of one class come with it.
    """

    batch_sizes: BatchSizes | None = None
    epochs: Annotated[int, Field(ge=1, le=100_000)] | None = None
    reshuffles: Annotated[int, Field(ge=0, le=1_000)] = 0


class RankingSpec(Spec):
    """Which split decides the order. Ranking on test is for comparing with published tables, and says so."""

    split: Split = Split.VALIDATION

    @model_validator(mode="after")
    def _not_on_training(self) -> RankingSpec:
        if self.split is Split.TRAIN:
            raise ValueError("rank on validation (or on test, to compare with published tables), not on train")
        return self


class StudySpec(Spec):
    """One study file. space: keys that vary, each with its dimension. search: how; without it, every point."""

    added_later = frozenset({"space", "search", "probes", "layers"})

    name: str = Field(pattern=NAME)
    title: str = Field(default="", max_length=300)
    data: DataSpec
    model: ModelSpec
    arms: tuple[ArmSpec, ...] = Field(min_length=1, max_length=64)
    training: TrainingSpec = TrainingSpec()
    seeds: tuple[Annotated[int, Field(ge=0, lt=2**32)], ...] = Field(default=(0, 1, 2), min_length=1, max_length=1000)
    evaluation: EvaluationSpec = EvaluationSpec()
    ranking: RankingSpec = RankingSpec()
    space: Space | None = Field(default=None, max_length=64)
    search: SearchSpec | None = None
    probes: ProbesSpec | None = None
    layers: LayersSpec | None = None

    @property
    def sampled(self) -> bool:
        """Are points suggested while the study runs, instead of written out when it is accepted?"""
        return self.search is not None and self.search.sampler is not Sampler.GRID

    @property
    def sampled_points(self) -> int:
        """How many points the sampler suggests in all, for every arm together."""
        if self.search is None or self.space is None or not self.sampled:
            return 0
        return wanted_points(self.search, self.space) * len(self.arms)

    @model_validator(mode="before")
    @classmethod
    def _writable(cls, value: Any) -> Any:
        check_writable(value)
        return value

    @field_validator("arms")
    @classmethod
    def _arms_apart(cls, arms: tuple[ArmSpec, ...]) -> tuple[ArmSpec, ...]:
        labels = [arm.label for arm in arms]
        twice = {label for label in labels if labels.count(label) > 1}
        if twice:
            raise ValueError(f"two arms are called {', '.join(sorted(twice))}: give each a `name` of its own")
        return arms

    @field_validator("seeds")
    @classmethod
    def _seeds_once(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        return each_once(seeds, "seeds")

    @model_validator(mode="after")
    def _judged(self) -> StudySpec:
        for arm in self.arms:
            check_judge(arm, self.evaluation)
        return self

    @model_validator(mode="after")
    def _probed(self) -> StudySpec:
        probes = self.probes or ProbesSpec()
        if probes.epochs is not None and probes.epochs > self.training.epochs:
            raise ValueError(
                f"probes: every {probes.epochs} epochs is never in {self.training.epochs} epochs of training: lower it"
            )
        return self

    @model_validator(mode="after")
    def _fits_words(self) -> StudySpec:
        if self.data.name in WORDS and self.training.augmentation is not None:
            raise ValueError(f"training: augmentation is of images, {self.data.name} holds words: remove it")
        if self.data.name in WORDS and self.data.standardization is Standardization.CHANNEL:
            raise ValueError(f"data: {self.data.name} holds words, which nothing standardizes: remove standardization")
        return self

    @model_validator(mode="after")
    def _layers_stand_behind_cells(self) -> StudySpec:
        if self.layers is not None and self.model.normalize == "cells":
            raise ValueError("layers: normalization inside cells has one word for the whole network: remove layers")
        return self

    @model_validator(mode="after")
    def _layers_have_values(self) -> StudySpec:
        wanted = None if self.layers is None else self.layers.estimate
        for arm in self.arms:
            estimates = arm.population or self.evaluation.population
            if wanted is not None and wanted not in estimates:
                raise ValueError(
                    f"layers: the arm {arm.label} has no estimate `{wanted}`: it has {', '.join(estimates)}"
                )
        return self

    @model_validator(mode="after")
    def _searchable(self) -> StudySpec:
        if self.space is None:
            if self.search is not None:
                raise ValueError("search needs a space: say which keys vary, and over what")
            return self
        if not self.space:
            raise ValueError("the space is empty: name at least one key that varies, or remove it")
        for key, dimension in self.space.items():
            _check_key(key)
            if isinstance(dimension, ChoiceDimension) and key in SECTIONS:
                _check_section(key, dimension)
        problem = None if self.search is None else self.search.problem(self.space, len(self.seeds))
        if problem is None and self.search is None:
            problem = SearchSpec(sampler=Sampler.GRID).problem(self.space, len(self.seeds))
        if problem is not None:
            raise ValueError(problem)
        return self

    @property
    def canonical(self) -> str:
        """The study as JSON with every default written out and keys sorted."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON."""
        return hashlib.sha256(self.canonical.encode()).hexdigest()


def check_judge(arm: ArmSpec, evaluation: EvaluationSpec) -> None:
    """Raise ValueError where epochs of the arm are judged under values that nothing gathers in training."""
    estimates = arm.population or evaluation.population
    if arm.judge.uses_population and not any(estimate.gathered_in_training for estimate in estimates):
        raise ValueError(
            f"arm {arm.label} is judged under {arm.judge}, which reads population values during training: "
            "add the estimate `epoch` or `moving` to its population"
        )


def _check_key(key: str) -> None:
    section, _, name = key.partition(".")
    sections: dict[str, type[Spec]] = {"arm": ArmSpec, "training": TrainingSpec, "model": ModelSpec}
    known = sections.get(section)
    if known is None:
        raise ValueError(f"space: {key} starts with none of {', '.join(SECTIONS)}: write it like training.batch_size")
    names = [field.alias or field_name for field_name, field in known.model_fields.items()]
    if (name and name.partition(".")[0] not in names) or name in ("name", "method"):
        raise ValueError(f"space: {key} is not a key that varies; {section} has {', '.join(names)}")


def _check_section(key: str, dimension: ChoiceDimension) -> None:
    for value in dimension.values:
        if not isinstance(value, dict) or "name" in value:
            raise ValueError(f"space: the choices of {key} are mappings of its keys without `name`, not {value!r}")
