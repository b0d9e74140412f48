"""A trial: one fully resolved training run of a study, and the rows its network is evaluated under."""

from __future__ import annotations

import hashlib
import json

from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.words import PopulationEstimate
from bln_search.specs.base import Spec
from bln_search.specs.data import DataSpec
from bln_search.specs.study import ArmSpec, EvaluationSpec, ModelSpec, StudySpec
from bln_search.specs.training import TrainingSpec


class TrialSpec(Spec):
    """Everything that decides the outcome of one training run, and what is evaluated afterwards."""

    data: DataSpec
    model: ModelSpec
    arm: ArmSpec
    training: TrainingSpec
    evaluation: EvaluationSpec
    seed: int

    @property
    def key(self) -> str:
        """What tells this trial from the others of its study: a digest of all it holds."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
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
    def label(self) -> str:
        """The arm and the seed, for people."""
        return f"{self.arm.label} seed {self.seed}"


def trials_of(study: StudySpec) -> tuple[TrialSpec, ...]:
    """Every trial of a study: arms × seeds, written out."""
    return tuple(
        TrialSpec(
            data=study.data,
            model=study.model,
            arm=arm,
            training=study.training,
            evaluation=study.evaluation,
            seed=seed,
        )
        for seed in study.seeds
        for arm in study.arms
    )


def planned_rows(trial: TrialSpec) -> tuple[tuple[InferenceConfiguration, PopulationEstimate | None], ...]:
    """Configurations × estimates; one that reads no population value stands once, with no estimate."""
    return tuple(
        (configuration, estimate)
        for configuration in all_configurations(trial.arm.method)
        for estimate in (trial.estimates if configuration.uses_population else (None,))
    )
