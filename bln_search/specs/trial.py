"""The specification of a trial: one training run with all values resolved, and the rows of its evaluation."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import Any

from pydantic import Field, JsonValue, ValidationError

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate
from bln_search.core.errors import SpecError
from bln_search.core.mixed_rows import MixtureWeights
from bln_search.core.registry import ADAPTATIONS
from bln_search.specs.adaptation_checks import check_configurations_fit_arm
from bln_search.specs.arm_checks import check_arm_can_be_trained
from bln_search.specs.pydantic_messages import translate_pydantic_error
from bln_search.specs.sections.adaptation import AdaptationSpec
from bln_search.specs.sections.arm import ArmSpec
from bln_search.specs.sections.data import DataSpec
from bln_search.specs.sections.evaluation import EvaluationSpec, ProbesSpec
from bln_search.specs.sections.model import ModelSpec
from bln_search.specs.sections.space import HORIZON_KEY, Point, format_point, iter_grid_points, num_grid_points
from bln_search.specs.sections.stream import StreamSpec
from bln_search.specs.sections.task import TaskSpec, resolve_task
from bln_search.specs.sections.training import TrainingSpec
from bln_search.specs.spec_section import SpecSection
from bln_search.specs.study import StudySpec

LARGEST_GRID = 100_000
_MAX_BOUNDARY_TRIALS = 5_000


class TrialSpec(SpecSection):
    """Everything that determines the outcome of one training run and its evaluation.

    Attributes:
        parameters: The point of the study's space; the other attributes already contain its values. Those of a search
            trial have its horizon too.
        stream: Streams over which the network adapts after its evaluation; None for none.
        adaptation: The arms of adaptation.
        horizon: Epochs after which the training of a search trial ends, whose network is not evaluated; None for a
            full training.
    """

    added_later = frozenset({"task", "parameters", "probes", "stream", "adaptation", "horizon"})

    data: DataSpec
    task: TaskSpec | None = None
    model: ModelSpec
    arm: ArmSpec
    training: TrainingSpec
    evaluation: EvaluationSpec
    seed: int
    parameters: dict[str, JsonValue] | None = Field(default=None)
    probes: ProbesSpec | None = None
    stream: StreamSpec | None = None
    adaptation: tuple[AdaptationSpec, ...] = ()
    horizon: int | None = None

    @property
    def is_search_phase_trial(self) -> bool:
        """Does the trial only compare points, before the best one is trained in full?"""
        return self.horizon is not None

    @property
    def epochs(self) -> int:
        """The epochs that are trained."""
        return self.training.epochs if self.horizon is None else self.horizon

    @property
    def key(self) -> str:
        """Identifies the trial in its study: a digest of everything that determines its outcome."""
        return hashlib.sha256(self.canonical_json(exclude={"parameters"}).encode()).hexdigest()[:32]

    @property
    def population_estimates(self) -> tuple[PopulationEstimate, ...]:
        """The population estimates evaluated for this trial."""
        return self.arm.population or self.evaluation.population

    @property
    def model_options(self) -> dict[str, Any]:
        """The options of the model for the method of this trial."""
        options = self.model.model_dump(mode="json", exclude={"name"}, exclude_none=True)
        if self.resolved_task.description.has_prediction_per_token:
            options["per_token"] = True
        if self.model.output_norm is not None:
            options["output_norm"] = self.arm.method in self.model.output_norm
        return options

    @property
    def resolved_task(self) -> TaskSpec:
        """The task, that of the data set if the study does not specify it."""
        return resolve_task(self.task, self.data.name)

    @property
    def mixture_weights(self) -> MixtureWeights:
        """The weights of blended and moving statistics; none for a method without statistics over the mini-batch."""
        if not self.arm.method.has_batch_statistics:
            return MixtureWeights()
        return MixtureWeights(self.evaluation.blends, self.evaluation.moving)

    @property
    def inference_batch_sizes(self) -> tuple[int, ...]:
        """The inference mini-batch sizes."""
        return self.evaluation.batch_sizes or (self.training.batch_size,)

    @property
    def all_condition_names(self) -> tuple[str, ...]:
        """The conditions under which the network is evaluated: the one that ranks is empty."""
        return ("", *self.evaluation.additional_condition_names)

    @property
    def num_evaluations_per_split(self) -> int:
        """The number of evaluations on each of validation and test."""
        if self.is_search_phase_trial:
            return 0
        return (
            len(list_planned_configurations_and_estimates(self))
            * len(self.inference_batch_sizes)
            * len(self.all_condition_names)
        )

    @property
    def point_label(self) -> str:
        """The point for people; empty if nothing varies."""
        return format_point(self.parameters or {})

    @property
    def label(self) -> str:
        """Arm, point and seed for people."""
        return " ".join(part for part in (self.arm.label, self.point_label, f"seed {self.seed}") if part)


def list_planned_trial_specs(study: StudySpec) -> tuple[TrialSpec, ...]:
    """The trials that are created when the study is accepted: points × seeds × arms; none if points are sampled.

    If the best points are trained after the search, the trials of the search.

    Raises:
        SpecError: The grid has too many points, or an arm cannot take a point.
    """
    if study.samples_points_during_run:
        return ()
    if study.space is not None and count_planned_trials(study) > LARGEST_GRID:
        raise SpecError(
            f"study {study.name}",
            [f"the space has {num_grid_points(study.space)} points, more than {LARGEST_GRID:,}: choose a sampler"],
        )
    points: list[Point | None] = [None] if study.space is None else list(iter_grid_points(study.space))
    resolved = [
        [make_search_or_full_trial_spec(study, arm, point, study.seeds_per_point[0]) for arm in study.arms]
        for point in points
    ]
    if len({trial.key for trials in resolved for trial in trials}) < len(points) * len(study.arms):
        raise SpecError(
            f"study {study.name}", ["two points of the space resolve to the same trial: write each value once"]
        )
    return tuple(
        trial.model_copy(update={"seed": seed})
        for trials in resolved
        for seed in study.seeds_per_point
        for trial in trials
    )


def count_planned_trials(study: StudySpec) -> int:
    """The number of trials that are created when the study is accepted."""
    points = 1 if study.space is None else num_grid_points(study.space)
    return 0 if study.samples_points_during_run else points * len(study.seeds_per_point) * len(study.arms)


def count_trials_upper_bound(study: StudySpec) -> int:
    """The number of trials that the study has in the end, at most; of a grid or of sampled points, and of best ones."""
    sampled = study.num_sampled_points * len(study.seeds_per_point)
    return count_planned_trials(study) + sampled + study.num_best_point_trials


def search_trial_epochs(study: StudySpec, epochs: int) -> int:
    """The epochs of a search trial whose full training has `epochs`."""
    most = None if study.search is None else study.search.epochs
    return epochs if most is None else min(most, epochs)


def make_search_or_full_trial_spec(study: StudySpec, arm: ArmSpec, point: Point | None, seed: int) -> TrialSpec:
    """The trial of an arm at a point: a full training, or one of the search if the best point is trained after it.

    Raises:
        SpecError: The arm cannot take the point.
    """
    trial = make_full_trial_spec(study, arm, point, seed)
    if study.search is None or not study.trains_best_points_after_search:
        return trial
    horizon = search_trial_epochs(study, trial.training.epochs)
    parameters = {**(point or {}), HORIZON_KEY: horizon}
    return trial.model_copy(update={"horizon": horizon, "parameters": parameters, "probes": None, "stream": None})


def make_full_trial_spec(study: StudySpec, arm: ArmSpec, point: Point | None, seed: int) -> TrialSpec:
    """The full training of an arm at a point of the space. Raises SpecError if the arm cannot take the point."""
    sections: dict[str, SpecSection] = {"arm": arm, "training": study.training, "model": study.model}
    changed = {name: sections[name].model_dump(mode="json") for name in {key.partition(".")[0] for key in point or {}}}
    try:
        for key, value in (point or {}).items():
            _set_value_at_path(changed, key.split("."), value)
    except ValueError as error:
        raise SpecError(f"study {study.name}", [f"space: {error}"]) from None
    try:
        resolved = ArmSpec.model_validate(changed["arm"]) if "arm" in changed else arm
        if resolved.label != arm.label:  # the point changes the method of the arm
            resolved = resolved.model_copy(update={"name": arm.label})
        model = ModelSpec.model_validate(changed["model"]) if "model" in changed else study.model
        training = TrainingSpec.model_validate(changed["training"]) if "training" in changed else study.training
        check_arm_can_be_trained(resolved, training, study.evaluation, model)
        check_configurations_fit_arm(study.arms_of_adaptation, resolved)
        return TrialSpec.model_construct(  # every section is validated
            data=study.data,
            task=study.task,
            model=model,
            arm=resolved,
            training=training,
            evaluation=study.evaluation,
            seed=seed,
            parameters=point,
            probes=study.probes,
            stream=study.stream,
            adaptation=study.arms_of_adaptation,
        )
    except ValidationError as error:
        problem = error.errors()[0]
        location = ".".join(str(part) for part in problem["loc"])
        raise _make_invalid_point_error(
            study, arm, point, f"{location} {translate_pydantic_error(problem)}".strip()
        ) from None
    except ValueError as error:
        raise _make_invalid_point_error(study, arm, point, str(error)) from None


def _make_invalid_point_error(study: StudySpec, arm: ArmSpec, point: Point | None, reason: str) -> SpecError:
    label = format_point(point or {})
    return SpecError(f"study {study.name}", [f"space: arm {arm.label} cannot take {label}: {reason}"])


def _set_value_at_path(sections: dict[str, Any], path: list[str], value: Any) -> None:
    """Set the value at a path; a mapping is merged into an existing mapping."""
    *parents, last = path
    section = sections
    for part in parents:
        section = section.setdefault(part, {})
        if not isinstance(section, dict):
            raise ValueError(f"{'.'.join(path)} names a part of {part}, which is a single value: give the whole value")  # noqa: TRY004
    if isinstance(value, dict) and "kind" not in value and isinstance(section.get(last), dict):
        section[last] = {**section[last], **value}
    else:
        section[last] = value


def make_representative_trial_specs(study: StudySpec) -> tuple[TrialSpec, ...]:
    """Trials of every arm at each bound of each dimension; one trial of each arm if the study has no space.

    Raises:
        SpecError: An arm cannot take a bound.
    """
    if study.space is None:
        return tuple(make_full_trial_spec(study, arm, None, study.all_seeds[0]) for arm in study.arms)
    count = count_representative_trials(study)
    if count > _MAX_BOUNDARY_TRIALS:
        raise SpecError(
            f"study {study.name}", [f"the space has {count} values over all arms: give at most {_MAX_BOUNDARY_TRIALS}"]
        )
    return _make_boundary_trial_specs(_StudyByContent(study))


def count_representative_trials(study: StudySpec) -> int:
    """The number of trials of `make_representative_trial_specs`."""
    dimensions = () if study.space is None else study.space.values()
    return len(study.arms) * (sum(len(dimension.representative_values) for dimension in dimensions) or 1)


class _StudyByContent:
    """A study that equals others with the same content."""

    def __init__(self, study: StudySpec) -> None:
        self.study, self._digest = study, study.digest

    def __hash__(self) -> int:
        return hash(self._digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _StudyByContent) and self._digest == other._digest


@lru_cache(maxsize=4)  # several checks of one study need them
def _make_boundary_trial_specs(content: _StudyByContent) -> tuple[TrialSpec, ...]:
    study = content.study
    return tuple(
        make_full_trial_spec(study, arm, _boundary_point(study, key, value), study.all_seeds[0])
        for arm in study.arms
        for key, dimension in (study.space or {}).items()
        for value in dimension.representative_values
    )


def _boundary_point(study: StudySpec, key: str, value: Any) -> Point:
    """A point with `value` at `key` and the first bound of every other dimension."""
    return {
        other: value if other == key else dimension.representative_values[0]
        for other, dimension in (study.space or {}).items()
    }


def list_arms_of_adaptation(trial: TrialSpec) -> tuple[AdaptationSpec, ...]:
    """The arms of adaptation that run with the network of a trial.

    Without normalization no weight or statistic of a layer can adapt: only methods that change outputs run, each of
    them once.
    """
    if trial.arm.method.statistics:
        return trial.adaptation
    arms: dict[str, AdaptationSpec] = {}
    for arm in trial.adaptation:
        info = ADAPTATIONS.find_info(arm.name)
        if info is not None and info.reads_outputs_only:
            arms.setdefault(json.dumps([arm.name, arm.own_options], sort_keys=True), arm)
    return tuple(arms.values())


PlannedRow = tuple[InferenceConfiguration, str | None]
"""A configuration and the label of its population estimate; None if it reads no population value."""


def list_planned_configurations_and_estimates(trial: TrialSpec) -> tuple[PlannedRow, ...]:
    """Configurations × estimates, each followed by its blends and moving statistics.

    A configuration that reads no population value has one row, without an estimate. A method without statistics over
    the mini-batch has neither.
    """
    rows: list[PlannedRow] = []
    for configuration in trial.arm.evaluated_configurations_without_blends:
        for estimate in trial.population_estimates if configuration.uses_population else ():
            rows.append((configuration, estimate))
            rows += trial.mixture_weights.list_rows(configuration, estimate)
        if not configuration.uses_population:
            rows.append((configuration, None))
    return tuple(rows)
