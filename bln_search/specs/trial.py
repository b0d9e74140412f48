"""A trial: one fully resolved training run of a study, and the rows its network is evaluated under."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic import Field, JsonValue, ValidationError

from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.enums import PopulationEstimate
from bln_search.core.errors import SpecError
from bln_search.specs.arm import ArmSpec
from bln_search.specs.base import Spec
from bln_search.specs.data import DataSpec
from bln_search.specs.space import Point, grid, grid_size, point_label
from bln_search.specs.study import EvaluationSpec, ModelSpec, ProbesSpec, StudySpec, check_judge
from bln_search.specs.training import TrainingSpec
from bln_search.specs.wording import sentence

LARGEST_GRID = 100_000
_MOST_BORDERS = 5_000


class TrialSpec(Spec):
    """Everything that decides the outcome of one training run, and what is evaluated afterwards.

    parameters: the point of the study's space that this trial stands for; what it decides is already resolved.
    """

    added_later = frozenset({"parameters", "probes"})

    data: DataSpec
    model: ModelSpec
    arm: ArmSpec
    training: TrainingSpec
    evaluation: EvaluationSpec
    seed: int
    parameters: dict[str, JsonValue] | None = Field(default=None)
    probes: ProbesSpec | None = None

    @property
    def key(self) -> str:
        """What tells this trial from the others of its study: a digest of all that decides its outcome."""
        deciding = self.model_dump(mode="json", exclude={"parameters"})
        canonical = json.dumps(deciding, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:32]

    @property
    def estimates(self) -> tuple[PopulationEstimate, ...]:
        """The population estimates evaluated for this trial."""
        return self.arm.population or self.evaluation.population

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """The inference mini-batch sizes."""
        return self.evaluation.batch_sizes or (self.training.batch_size,)

    @property
    def point(self) -> str:
        """The varied keys for people, empty where nothing varies."""
        return point_label(self.parameters or {})

    @property
    def label(self) -> str:
        """The arm, what varies and the seed, for people."""
        return " ".join(part for part in (self.arm.label, self.point, f"seed {self.seed}") if part)


def trials_of(study: StudySpec) -> tuple[TrialSpec, ...]:
    """Every trial that is written out when the study is accepted: points × seeds × arms; none where points are sampled.

    Raises SpecError for a space that is too large to write out, or a point that an arm cannot take.
    """
    if study.sampled:
        return ()
    if study.space is not None and written_trials(study) > LARGEST_GRID:
        raise SpecError(
            f"study {study.name}",
            [f"the space has {grid_size(study.space)} points, more than can be written out: choose a sampler"],
        )
    points: list[Point | None] = [None] if study.space is None else list(grid(study.space))
    trials = [
        trial.model_copy(update={"seed": seed})
        for resolved in ([resolve(study, arm, point, study.seeds[0]) for arm in study.arms] for point in points)
        for seed in study.seeds
        for trial in resolved
    ]
    if len({trial.key for trial in trials}) < len(trials):
        raise SpecError(f"study {study.name}", ["two points of the space are the same trial: write each value once"])
    return tuple(trials)


def written_trials(study: StudySpec) -> int:
    """How many trials are written out when the study is accepted, without writing them out."""
    points = 1 if study.space is None else grid_size(study.space)
    return 0 if study.sampled else points * len(study.seeds) * len(study.arms)


def resolve(study: StudySpec, arm: ArmSpec, point: Point | None, seed: int) -> TrialSpec:
    """The trial of an arm at a point of the space. Raises SpecError for a point that cannot be."""
    sections: dict[str, Any] = {
        "arm": arm.model_dump(mode="json"),
        "training": study.training.model_dump(mode="json"),
        "model": study.model.model_dump(mode="json"),
    }
    try:
        for key, value in (point or {}).items():
            _put(sections, key.split("."), value)
    except ValueError as error:
        raise SpecError(f"study {study.name}", [f"space: {error}"]) from None
    try:
        resolved = ArmSpec.model_validate(sections["arm"])
        if resolved.label != arm.label:  # another method under the same arm
            resolved = resolved.model_copy(update={"name": arm.label})
        check_judge(resolved, study.evaluation)
        return TrialSpec(
            data=study.data,
            model=ModelSpec.model_validate(sections["model"]),
            arm=resolved,
            training=TrainingSpec.model_validate(sections["training"]),
            evaluation=study.evaluation,
            seed=seed,
            parameters=point,
            probes=study.probes,
        )
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"])
        raise _refused(study, arm, point, f"{place} {sentence(problem)}".strip()) from None
    except ValueError as error:
        raise _refused(study, arm, point, str(error)) from None


def _refused(study: StudySpec, arm: ArmSpec, point: Point | None, why: str) -> SpecError:
    label = point_label(point or {})
    return SpecError(f"study {study.name}", [f"space: arm {arm.label} cannot take {label}: {why}"])


def _put(sections: dict[str, Any], path: list[str], value: Any) -> None:
    """Put a value at a path; a mapping is merged into the mapping that stands there."""
    *way, last = path
    inner = sections
    for part in way:
        inner = inner.setdefault(part, {})
        if not isinstance(inner, dict):
            raise ValueError(f"{'.'.join(path)} names a part of {part}, which is one value: give the whole of it")  # noqa: TRY004
    if isinstance(value, dict) and "kind" not in value and isinstance(inner.get(last), dict):
        inner[last] = {**inner[last], **value}
    else:
        inner[last] = value


def border_trials(study: StudySpec) -> tuple[TrialSpec, ...]:
    """Of every arm a trial at each border of each dimension; of a study without a space one of each arm.

    Raises SpecError for a border that an arm cannot take.
    """
    if study.space is None:
        return tuple(resolve(study, arm, None, study.seeds[0]) for arm in study.arms)
    borders = len(study.arms) * sum(len(dimension.ends) for dimension in study.space.values())
    if borders > _MOST_BORDERS:
        raise SpecError(
            f"study {study.name}", [f"the space has {borders} values over all arms, at most {_MOST_BORDERS} are taken"]
        )
    return tuple(
        resolve(study, arm, _border(study, key, value), study.seeds[0])
        for arm in study.arms
        for key, dimension in study.space.items()
        for value in dimension.ends
    )


def _border(study: StudySpec, key: str, value: Any) -> Point:
    """A point with `value` at `key` and the first border of every other dimension."""
    return {other: value if other == key else one.ends[0] for other, one in (study.space or {}).items()}


def planned_rows(trial: TrialSpec) -> tuple[tuple[InferenceConfiguration, PopulationEstimate | None], ...]:
    """Configurations × estimates; one that reads no population value stands once, with no estimate."""
    return tuple(
        (configuration, estimate)
        for configuration in all_configurations(trial.arm.method)
        for estimate in (trial.estimates if configuration.uses_population else (None,))
    )
