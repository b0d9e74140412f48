"""The specification of a study: data, model, arms, training, seeds, search and evaluation."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator
from pydantic.json_schema import SkipJsonSchema

from bln_search.core.enums import StudyKind
from bln_search.core.loss_description import CROSS_ENTROPY, LossDescription
from bln_search.core.metric_description import BUILT_IN_METRICS, MetricDescription
from bln_search.core.names import NAME_PATTERN
from bln_search.core.tasks import TaskName
from bln_search.specs.adaptation_checks import DEFAULT_ARMS, check_arms_of_adaptation, check_configurations_fit_arm
from bln_search.specs.arm_checks import check_arm_can_be_trained, check_checkpoint_selection_configuration
from bln_search.specs.sections.adaptation import AdaptationSpec
from bln_search.specs.sections.arm import ArmSpec
from bln_search.specs.sections.condition import CLEAN
from bln_search.specs.sections.data import DataSpec, Standardization
from bln_search.specs.sections.evaluation import (
    EvaluationSpec,
    ProbesSpec,
    RankingSpec,
)
from bln_search.specs.sections.external import ExternalSpec
from bln_search.specs.sections.layer_search import LayerSearchSpec
from bln_search.specs.sections.model import ModelSpec
from bln_search.specs.sections.search import Sampler, SearchSpec, num_points_per_arm
from bln_search.specs.sections.seeds import Seeds
from bln_search.specs.sections.space import SECTIONS, ChoiceDimension, Space
from bln_search.specs.sections.stream import StreamSpec
from bln_search.specs.sections.task import TaskSpec, resolve_task
from bln_search.specs.sections.training import TrainingSpec
from bln_search.specs.spec_section import (
    SpecSection,
    Unique,
    check_storable_texts_and_size,
    drop_defaults_of_later_keys,
)

_SUBMITTED_KEYS = {
    "data": ("name",),
    "model": ("name",),
    "arms": ("method", "name"),
    "evaluation": ("per_slot", "batch_sizes"),
}
"""Keys of the sections that a study of submitted results has."""


class StudySpec(SpecSection):
    """A study file.

    Attributes:
        name: Small letters, digits, `-` and `_`, at most 64 characters; commands use it to identify the study.
        title: Title for display.
        data: Data set and split.
        task: What the networks predict; by default what the labels of the data set are made for.
        model: Network.
        arms: Normalization methods with their options, each trained with every seed.
        training: Hyper-parameters of training.
        seeds: One training run per seed; more seeds give more statistical power. Or `{until: decided}`.
        evaluation: How each network is evaluated.
        ranking: The split that ranks.
        space: Search space: the keys that vary, each with its dimension.
        search: Search algorithm for the space; without it every point is trained.
        probes: Further measurements besides the leaderboard.
        layers: Search of per-layer configurations.
        stream: Streams of the test split over which every trained network adapts.
        adaptation: Arms of adaptation on the streams; by default `none` with T and with F.
        external: Networks that were trained elsewhere and whose results were submitted; a service sets it.
    """

    added_later = frozenset({"task", "space", "search", "probes", "layers", "stream", "adaptation", "external"})
    set_by_service = frozenset({"external"})

    name: str = Field(pattern=NAME_PATTERN)
    title: str = Field(default="", max_length=300)
    data: DataSpec
    task: TaskSpec | None = None
    model: ModelSpec
    arms: tuple[ArmSpec, ...] = Field(min_length=1, max_length=64)
    training: TrainingSpec = TrainingSpec()
    seeds: Annotated[Seeds, Unique] = (0, 1, 2)
    evaluation: EvaluationSpec = EvaluationSpec()
    ranking: RankingSpec = RankingSpec()
    space: Space | None = Field(default=None, max_length=64)
    search: SearchSpec | None = None
    probes: ProbesSpec | None = None
    layers: LayerSearchSpec | None = None
    stream: StreamSpec | None = None
    adaptation: tuple[AdaptationSpec, ...] = Field(default=(), max_length=32)
    external: SkipJsonSchema[ExternalSpec | None] = None

    @property
    def kind(self) -> StudyKind:
        """Whether bln-search trains the networks of the study, or their results were submitted."""
        return StudyKind.TRAINED if self.external is None else StudyKind.EXTERNAL

    @property
    def loss_description(self) -> LossDescription:
        """What the loss of the study is."""
        if self.external is not None:
            return CROSS_ENTROPY if self.external.score is None else self.external.score.description
        return self.resolved_task.description.loss

    @property
    def metric_descriptions(self) -> tuple[MetricDescription, ...]:
        """The metrics of the task and those of the evaluation; submitted results have none."""
        if self.external is not None:
            return ()
        further = tuple(BUILT_IN_METRICS[name] for name in self.evaluation.metrics)
        return self.resolved_task.description.metrics + further

    @property
    def resolved_task(self) -> TaskSpec:
        """The task, that of the data set if it is not specified."""
        return resolve_task(self.task, self.data.name)

    @property
    def ranking_condition_name(self) -> str:
        """Name of the condition that ranks: that of clean images, unless submitted results name another one."""
        return CLEAN if self.external is None else self.external.ranking_condition or CLEAN

    @property
    def additional_condition_names(self) -> tuple[str, ...]:
        """The conditions beside the one that ranks, which is that of clean images unless results were submitted."""
        if self.external is not None:
            return tuple(self.external.conditions)
        return self.evaluation.additional_condition_names

    @property
    def deciding_conditions(self) -> dict[str, str]:
        """The conditions over which a row is recommended: their names by their keys in evaluations.

        Empty where the loss that ranks decides. Of submitted results the condition that ranks is one of them.
        """
        names = self.additional_condition_names
        if not names or self.ranking.over == CLEAN:
            return {}
        ranking = {} if self.external is None else {"": self.ranking_condition_name}
        return ranking | {name: name for name in names}

    @model_serializer(mode="wrap")
    def _omit_unsubmitted_fields(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Of a study with external results, leave out everything that was not submitted, such as training."""
        values = drop_defaults_of_later_keys(self, serialize(self))
        if self.external is not None:
            for key, names in _SUBMITTED_KEYS.items():
                if key in values:  # a caller may exclude any of them
                    values[key] = _select_keys(values[key], names)
            values.pop("training", None)
        return values

    @property
    def measures_layer_geometry(self) -> bool:
        """Is the geometry of the networks measured after each epoch?"""
        return self.probes is not None and self.probes.geometry is not None

    @property
    def has_populations_per_slot(self) -> bool:
        """Whether there is a feature population for each slot of the mini-batch, of which training has several."""
        one_slot = self.training.batch_size == 1 and "training.batch_size" not in (self.space or {})
        return self.evaluation.per_slot and not one_slot

    @property
    def arms_of_adaptation(self) -> tuple[AdaptationSpec, ...]:
        """The arms of adaptation that run over the streams; none without streams."""
        return () if self.stream is None else self.adaptation or DEFAULT_ARMS

    @property
    def samples_points_during_run(self) -> bool:
        """Are points sampled while the study runs, instead of created when it is accepted?"""
        return self.search is not None and self.search.sampler is not Sampler.GRID

    @property
    def num_sampled_points(self) -> int:
        """The number of points that are sampled, summed over arms."""
        if self.search is None or self.space is None or not self.samples_points_during_run:
            return 0
        return num_points_per_arm(self.search, self.space) * len(self.arms)

    @property
    def trains_best_points_after_search(self) -> bool:
        """Is the best point of each arm trained with all seeds after the search?"""
        return self.search is not None and self.search.then_train

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """Every seed that may be trained."""
        return self.seeds if isinstance(self.seeds, tuple) else tuple(range(self.seeds.at_most))

    @property
    def planned_looks(self) -> tuple[int, ...]:
        """Numbers of seeds after which the study is analysed if it adds seeds until it is decided; otherwise empty."""
        return () if isinstance(self.seeds, tuple) else self.seeds.looks

    @property
    def ranked_seeds(self) -> int | tuple[int, ...]:
        """The number of seeds that a ranked row must have, or the planned looks, of which the last one counts."""
        return self.planned_looks or len(self.all_seeds)

    @property
    def seeds_per_point(self) -> tuple[int, ...]:
        """The seeds of each point of the space: all, or those of the search if its best points are trained later."""
        if self.search is None or not self.search.then_train:
            return self.all_seeds
        return self.search.trial_seeds or self.all_seeds[:1]

    @property
    def num_best_point_trials(self) -> int:
        """The number of trials of the best points, which are trained after the search."""
        return len(self.arms) * len(self.all_seeds) if self.trains_best_points_after_search else 0

    @model_validator(mode="before")
    @classmethod
    def _check_storable_texts_and_size(cls, value: Any) -> Any:
        check_storable_texts_and_size(value)
        return value

    @field_validator("arms")
    @classmethod
    def _check_unique_arm_labels(cls, arms: tuple[ArmSpec, ...]) -> tuple[ArmSpec, ...]:
        labels = [arm.label for arm in arms]
        repeated = {label for label in labels if labels.count(label) > 1}
        if repeated:
            raise ValueError(f"two arms are called {', '.join(sorted(repeated))}: give each a `name` of its own")
        return arms

    @model_validator(mode="after")
    def _check_arms(self) -> StudySpec:
        for arm in self.arms:
            if self.space is None:
                check_arm_can_be_trained(arm, self.training, self.evaluation, self.model)
            else:  # each of its points is checked
                check_checkpoint_selection_configuration(arm, self.evaluation)
        return self

    @model_validator(mode="after")
    def _check_blends_have_batch_statistics(self) -> StudySpec:
        has_batch_statistics = any(arm.method.has_batch_statistics for arm in self.arms)
        for key in ("blends", "moving"):
            if getattr(self.evaluation, key) and not has_batch_statistics and "arm" not in (self.space or {}):
                raise ValueError(
                    f"evaluation: {key}: no arm has statistics over the mini-batch, which it combines with the "
                    f"population: remove {key}, or add an arm with bn, bln, mbn or brn"
                )
        return self

    @model_validator(mode="after")
    def _check_conditions_of_the_recommendation(self) -> StudySpec:
        if self.ranking.over != RankingSpec().over and not self.additional_condition_names:
            raise ValueError(
                "ranking: over has no effect without `evaluation: conditions` or `lengths`: add them, or remove over"
            )
        return self

    @model_validator(mode="after")
    def _check_probed_epochs(self) -> StudySpec:
        probes = self.probes or ProbesSpec()
        if probes.epochs is not None and probes.epochs > self.training.epochs:
            raise ValueError(
                f"probes: epochs {probes.epochs} is more than the {self.training.epochs} epochs of training: lower it"
            )
        return self

    @model_validator(mode="after")
    def _check_data_options(self) -> StudySpec:
        name, augmentation, info = self.data.name, self.training.augmentation, self.data.info
        is_lazy = info is not None and info.is_lazy
        if augmentation is not None and augmentation.resized_crop and not is_lazy:
            raise ValueError(f"training: augmentation: resized_crop is for imagenet, not for {name}: use crop")
        if info is None:
            return self
        if info.text_length is None and self.model.mask_padding:
            raise ValueError(
                f"model: mask_padding skips the padding of texts, {name} does not consist of texts: remove it"
            )
        if info.text_length is not None and augmentation is not None:
            raise ValueError(f"training: augmentation applies to images, {name} consists of token ids: remove it")
        if info.text_length is not None and self.data.standardization is Standardization.CHANNEL:
            raise ValueError(f"data: {name} consists of token ids, which are not standardized: remove standardization")
        reason = f"the images of {name} are decoded one mini-batch at a time"
        if is_lazy and self.data.standardization is Standardization.PIXEL:
            raise ValueError(f"data: {reason}: set standardization to channel or none")
        in_memory = {
            "evaluation: conditions": self.evaluation.conditions,
            "layers": self.layers,
            "stream": self.stream,
        }
        for section, is_set in in_memory.items():
            if is_lazy and is_set:
                raise ValueError(f"{section}: {reason}, and this needs them in memory: remove it")
        return self

    @model_validator(mode="after")
    def _check_layer_search(self) -> StudySpec:
        if self.layers is None:
            return self
        if self.model.normalizes_inside_recurrent_cells:
            raise ValueError(
                "layers: normalization inside cells has one configuration for the whole network: remove layers"
            )
        if not any(arm.method.statistics for arm in self.arms):
            raise ValueError(
                "layers: no arm has normalization layers whose configuration could be searched: remove layers, or add "
                "an arm with another method than none"
            )
        required = self.layers.estimate
        for arm in self.arms:
            estimates = arm.population or self.evaluation.population
            if required is not None and required not in estimates:
                raise ValueError(
                    f"layers: the arm {arm.label} has no estimate `{required}`: it has {', '.join(estimates)}"
                )
        return self

    @model_validator(mode="after")
    def _check_streams(self) -> StudySpec:
        if self.stream is None:
            if self.adaptation:
                raise ValueError("adaptation needs streams: add `stream: {}`, or remove adaptation")
            return self
        task = self.resolved_task.name
        if task is not TaskName.CLASSIFICATION:
            raise ValueError(f"stream: networks adapt to streams of a classification, the task is {task}: remove it")
        check_arms_of_adaptation(
            self.stream, self.arms_of_adaptation, self.evaluation, per_slot=self.has_populations_per_slot
        )
        if self.space is None:  # otherwise each of its points is checked
            for arm in self.arms:
                check_configurations_fit_arm(self.arms_of_adaptation, arm)
        return self

    @model_validator(mode="after")
    def _check_space_and_search(self) -> StudySpec:
        if self.space is None:
            if self.search is not None:
                raise ValueError("search needs a space: say which keys vary, and over what")
            return self
        if self.planned_looks:
            raise ValueError(
                "seeds until decided need one point for each arm: list the seeds, or remove space and search"
            )
        if not self.space:
            raise ValueError("the space is empty: name at least one key that varies, or remove it")
        for key, dimension in self.space.items():
            _check_space_key(key, self.model)
            if isinstance(dimension, ChoiceDimension) and key in SECTIONS:
                _check_section_choices(key, dimension)
        problem = None if self.search is None else self.search.find_space_problem(self.space, len(self.seeds_per_point))
        if problem is None and self.search is None:
            problem = SearchSpec(sampler=Sampler.GRID).find_space_problem(self.space, len(self.all_seeds))
        horizon = None if self.search is None else self.search.epochs
        if horizon is not None and horizon > self.training.epochs and not self._varies_epochs:
            problem = f"search: epochs {horizon} is more than the {self.training.epochs} epochs of training: lower it"
        if problem is not None:
            raise ValueError(problem)
        return self

    @property
    def _varies_epochs(self) -> bool:
        return bool({"training", "training.epochs"} & set(self.space or {}))


def _select_keys(section: Any, names: tuple[str, ...]) -> Any:
    """Return a section, or each section of a list, with these keys only."""
    if isinstance(section, list | tuple):
        return [_select_keys(member, names) for member in section]
    return {name: section[name] for name in names if name in section}


def _check_space_key(key: str, model: ModelSpec) -> None:
    section, _, name = key.partition(".")
    if section not in SECTIONS:
        raise ValueError(f"space: {key} starts with none of {', '.join(SECTIONS)}: write it like training.batch_size")
    fields = (ArmSpec if section == "arm" else TrainingSpec).model_fields
    names = model.keys if section == "model" else [field.alias or field_name for field_name, field in fields.items()]
    is_known = not name or name.partition(".")[0] in names or (section == "model" and model.has_unknown_options)
    if not is_known or name in ("name", "method"):
        raise ValueError(f"space: {key} is not a key that varies; {section} has {', '.join(names)}")


def _check_section_choices(key: str, dimension: ChoiceDimension) -> None:
    for value in dimension.values:
        if not isinstance(value, dict) or "name" in value:
            raise ValueError(f"space: the choices of {key} are mappings of its keys without `name`, not {value!r}")
