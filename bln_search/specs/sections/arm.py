"""An arm: one way of normalizing the network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field, model_validator

from bln_search.core.configuration import (
    InferenceConfiguration,
    enumerate_configurations,
    epoch_selection_configuration_of,
)
from bln_search.core.enums import AffineSharing, MbnStatisticSource, NormalizedAxes, PopulationEstimate, Semantics
from bln_search.core.method import Method, StatisticSource, source_of_mbn
from bln_search.specs.sections.configuration_code import ConfigurationCode
from bln_search.specs.sections.fine_tune import FineTuneSpec
from bln_search.specs.sections.schedule import Constant, Ramp, Schedule, Steps
from bln_search.specs.spec_section import SpecSection, Unique

PAPER_LAMBDA = Steps(steps={0.0: 0.1, 0.4: 0.5, 0.6: 0.9})
"""λ of the MBN paper: 0.1, then 0.5 at 40 % and 0.9 at 60 % of training."""

PAPER_R_MAX = Ramp(kind="linear", initial=1, final=3, begin=0.05, end=0.4)
"""r_max of the BRN paper: from 1 (BN) to 3, with fractions of training instead of steps."""

PAPER_D_MAX = Ramp(kind="linear", initial=0, final=5, begin=0.05, end=0.25)
"""d_max of the BRN paper: from 0 (BN) to 5, with fractions of training instead of steps."""


@dataclass(frozen=True)
class LayerOption:
    """A key of an arm that is an argument of the layer, for the methods whose description names it.

    Attributes:
        argument: Name of the argument.
        default: Its value in a study that leaves it out; None for that of the layer.
        is_shared: May arms of other methods have the key too, with another meaning?
    """

    argument: str
    default: float | None = None
    is_shared: bool = False


@dataclass(frozen=True)
class ScheduleOption:
    """A key of an arm that changes an attribute of the layer during training.

    Attributes:
        default: The schedule of a study that leaves it out.
        lowest: Bound of its values.
        highest: Bound of its values.
    """

    default: Constant | Steps | Ramp
    lowest: float
    highest: float = inf


@dataclass(frozen=True)
class SourceOption:
    """A key of an arm that asks for configurations with one more source.

    Attributes:
        source: The source.
    """

    source: StatisticSource


_METHOD_KEYS = tuple(dict.fromkeys(key for method in Method for key in method.description.arm_keys))
"""The keys that only some methods have."""

_NOT_WITHOUT_NORMALIZATION = ("semantics", "epsilon", "momentum", "population", "double_forward")
"""Options that have no effect in a network without normalization."""


def _require_nameable(estimate: PopulationEstimate) -> PopulationEstimate:
    if estimate.has_own_source_letter:
        raise ValueError(
            f"{estimate} cannot be named as a population estimate: configurations with M, L, C and A read it by their "
            "letter"
        )
    return estimate


NameableEstimate = Annotated[PopulationEstimate, AfterValidator(_require_nameable)]
"""A population estimate that no letter of a configuration names by itself."""


class ArmSpec(SpecSection):
    """One way of normalizing the network.

    Attributes:
        method: Normalization method; `none` trains the network without normalization.
        name: Label of the arm, by default its method; labels must be unique.
        semantics: `paper`: the formulas of the paper; `reference`: those of the BLN authors' code.
        axes: Values over which `ln` and `bln` compute the statistics of an image: the channels at each `position`, or
            all units of the `layer`, channels and positions (LN paper, Eq. 3). Dense and recurrent layers have no
            positions.
        affine: Units of an image that share a gain γ and a bias β in `ln` and `bln`: `channel`, all positions of a
            channel; `unit`, none (LN paper, Eq. 5).
        unbiased: `bn` divides the variance of a mini-batch by n − 1 in place of n, its number of values, in training
            and where the statistic comes from the mini-batch; the variance of one value is 0.
        epsilon: ε under the root of standard deviations; by default 1e-4 in the reading `paper`, 1e-3 in `reference`.
        momentum: Decay of the estimate `moving`, and of the moving averages of BRN.
        judged_under: Configuration used for checkpoint selection, such as `FFFF`; by default every statistic comes from
            the mini-batch, for MBN from the memory. One with `T` needs the estimate `epoch` or `moving`.
        population: Population estimates of this arm instead of those of `evaluation`.
        memory: k of MBN, the number of remembered mini-batches; by default 20.
        memory_decay: η of MBN; by default 0.9.
        memory_sources: Readings of the inference of MBN that are evaluated: `memory` (letter M), `last_step` (L),
            `with_mini_batch` (C); by default `memory`. n of them give (n + 2)² configurations.
        between_variance: Whether the variance of MBN includes that between the means of mini-batches; by default true,
            false is the weighted mean of the variances (Eq. 4 of its paper).
        from_weights: Also evaluate `bn` or `bln` with statistics computed from the trained weights alone, by analytic
            propagation of mean and variance (letter A): nine and 81 configurations instead of four and 16.
        lambda_: λ of MBN, the weight of the memory, between 0 and 1; by default 0.1, from 40 % of training 0.5, from
            60 % 0.9.
        r_max: r_max of BRN, at least 1; by default linear from 1 to 3 between 5 % and 40 % of training.
        d_max: d_max of BRN, at least 0; by default linear from 0 to 5 between 5 % and 25 % of training.
        double_forward: A second forward pass of the same mini-batch with the new weights records its statistics.
        fine_tune: Further training of each network under one configuration. Its rows are those after it; an arm of the
            same method without `fine_tune` has the rows before.
    """

    added_later = frozenset(
        {
            *("axes", "affine", "unbiased", "memory", "memory_decay", "memory_sources", "between_variance"),
            *("from_weights", "lambda_", "r_max", "d_max", "double_forward", "fine_tune"),
        }
    )

    method: Method
    name: str | None = Field(default=None, pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")
    semantics: Semantics = Semantics.PAPER
    axes: Annotated[NormalizedAxes, LayerOption("axes")] = NormalizedAxes.POSITION
    affine: Annotated[AffineSharing, LayerOption("affine")] = AffineSharing.CHANNEL
    unbiased: Annotated[bool, LayerOption("unbiased")] = False
    epsilon: Annotated[float, Field(gt=0, le=1)] | None = None
    momentum: Annotated[float, Field(gt=0, lt=1), LayerOption("momentum", 0.99, is_shared=True)] = 0.99
    judged_under: ConfigurationCode | None = None
    population: Annotated[tuple[NameableEstimate, ...], Field(min_length=1), Unique] | None = None
    memory: Annotated[Annotated[int, Field(ge=1, le=100_000)] | None, LayerOption("memory_size", 20)] = None
    memory_decay: Annotated[Annotated[float, Field(gt=0, le=1)] | None, LayerOption("memory_decay", 0.9)] = None
    memory_sources: Annotated[tuple[MbnStatisticSource, ...] | None, Unique, LayerOption("memory_sources")] = Field(
        default=None, min_length=1
    )
    between_variance: Annotated[bool | None, LayerOption("between_variance")] = None
    from_weights: Annotated[bool, SourceOption(StatisticSource.ANALYTIC)] = False
    lambda_: Annotated[Schedule | None, ScheduleOption(PAPER_LAMBDA, 0, 1)] = Field(default=None, alias="lambda")
    r_max: Annotated[Schedule | None, ScheduleOption(PAPER_R_MAX, 1)] = None
    d_max: Annotated[Schedule | None, ScheduleOption(PAPER_D_MAX, 0)] = None
    double_forward: bool = False
    fine_tune: FineTuneSpec | None = None

    @property
    def label(self) -> str:
        """The name of the arm, otherwise its method."""
        return self.name or self.method.value

    @property
    def checkpoint_selection_configuration(self) -> InferenceConfiguration:
        """The configuration whose validation loss selects the epoch."""
        return self.judged_under or epoch_selection_configuration_of(self.method)

    @property
    def evaluated_configurations_without_blends(self) -> tuple[InferenceConfiguration, ...]:
        """Every configuration that is evaluated, without blends."""
        asked_for = [source_of_mbn(reading) for reading in self.memory_sources or ()]
        asked_for += [
            option.source for key, option in _options_of_keys(_METHOD_KEYS, SourceOption).items() if getattr(self, key)
        ]
        return enumerate_configurations(self.method, asked_for)

    @property
    def norm_layer_options(self) -> dict[str, Any]:
        """Options of a layer that this method has: those that are set, and those with a default of their own."""
        values = self.model_dump(mode="json", by_alias=False)
        options = _options_of_keys(self.method.description.arm_keys, LayerOption)
        return {
            option.argument: values[key] if self._is_set(key) else option.default
            for key, option in options.items()
            if self._is_set(key) or option.default is not None
        }

    @property
    def changed_layer_options(self) -> dict[str, str | bool]:
        """The options `axes`, `affine` and `unbiased` that differ from their default."""
        options = {"axes": self.axes.value, "affine": self.affine.value, "unbiased": self.unbiased}
        return {name: value for name, value in options.items() if self._is_set(name)}

    @property
    def layer_attribute_schedules(self) -> dict[str, Constant | Steps | Ramp]:
        """Schedules of the layer attributes that change during training."""
        options = _options_of_keys(self.method.description.arm_keys, ScheduleOption)
        return {key: getattr(self, key) or option.default for key, option in options.items()}

    def _is_set(self, key: str) -> bool:
        """Does the value of a key differ from its default?"""
        return bool(getattr(self, key) != type(self).model_fields[key].default)

    @model_validator(mode="after")
    def _check_checkpoint_selection_configuration(self) -> ArmSpec:
        if self.checkpoint_selection_configuration.uses_blend:
            raise ValueError(
                f"judged_under {self.checkpoint_selection_configuration} blends statistics, which have no weight in "
                "training: use "
                f"T or F instead of B, as in {epoch_selection_configuration_of(self.method)}"
            )
        if not self.checkpoint_selection_configuration.fits_method(self.method):
            raise ValueError(
                f"judged_under {self.checkpoint_selection_configuration} does not name the statistics of "
                f"{self.method}: "
                f"write it like {epoch_selection_configuration_of(self.method)}"
            )
        self._check_memory_sources_of_configuration("judged_under", self.judged_under)
        self._check_configuration_is_trainable("judged_under", self.judged_under)
        return self

    def _check_memory_sources_of_configuration(self, key: str, configuration: InferenceConfiguration | None) -> None:
        """Raise ValueError where a configuration reads the memory by a source that the arm does not evaluate."""
        possible = (MbnStatisticSource.MEMORY, *(self.memory_sources or ()))
        for source in () if configuration is None else configuration.source_by_statistic.values():
            reading = source.description.mbn_source
            if reading is not None and reading not in possible:
                raise ValueError(f"{key} {configuration} needs {reading}: add it to memory_sources of the arm")

    @model_validator(mode="after")
    def _check_fine_tuning(self) -> ArmSpec:
        code = None if self.fine_tune is None else self.fine_tune.configuration
        if code is not None and (code.uses_blend or not code.fits_method(self.method)):
            raise ValueError(
                f"fine_tune: configuration {code} is not one of {self.method} without blends: write it like "
                f"{epoch_selection_configuration_of(self.method)}, or remove it for the best one of each network"
            )
        self._check_memory_sources_of_configuration("fine_tune: configuration", code)
        self._check_configuration_is_trainable("fine_tune: configuration", code)
        return self

    def _check_configuration_is_trainable(self, key: str, configuration: InferenceConfiguration | None) -> None:
        """Raise ValueError for values from the weights in methods that compute them after training only."""
        if configuration is not None and configuration.uses_optional_source_of(self.method):
            raise ValueError(
                f"{key} {configuration} reads values from the weights, which {self.method} has after training only: "
                f"write it like {epoch_selection_configuration_of(self.method)}"
            )

    @model_validator(mode="after")
    def _check_method_options(self) -> ArmSpec:
        options = _options_of_keys(_METHOD_KEYS, LayerOption)
        shared = {key for key, option in options.items() if option.is_shared}
        foreign = set(_METHOD_KEYS) - shared - set(self.method.description.arm_keys)
        keys_by_methods: dict[tuple[Method, ...], list[str]] = {}
        for key in (key for key in _METHOD_KEYS if key in foreign and self._is_set(key)):
            methods = tuple(method for method in Method if key in method.description.arm_keys)
            keys_by_methods.setdefault(methods, []).append(self.study_file_key_of_field(key))
        for methods, keys in keys_by_methods.items():
            raise ValueError(
                f"{', '.join(keys)} belongs to {' and '.join(methods)}, the arm is {self.method}: remove it"
            )
        variants = ", ".join(key for key in ("axes", "affine") if self._is_set(key))
        if variants and self.semantics is Semantics.REFERENCE:
            raise ValueError(f"{variants} belongs to the semantics paper: remove it, or the semantics reference")
        without_effect = [key for key in _NOT_WITHOUT_NORMALIZATION if self._is_set(key)]
        if self.method is Method.NONE and without_effect:
            raise ValueError(
                f"{', '.join(without_effect)} has no effect without normalization, the arm is none: remove it"
            )
        return self

    @model_validator(mode="after")
    def _check_schedule_bounds(self) -> ArmSpec:
        for key, option in _options_of_keys(_METHOD_KEYS, ScheduleOption).items():
            schedule: Constant | Steps | Ramp | None = getattr(self, key)
            if schedule is None or all(option.lowest <= value <= option.highest for value in schedule.bounding_values):
                continue
            lowest, highest = option.lowest, option.highest
            allowed = f"between {lowest:g} and {highest:g}" if highest < inf else f"at least {lowest:g}"
            raise ValueError(f"{self.study_file_key_of_field(key)} must stay {allowed}, not {schedule}")
        return self

    @classmethod
    def study_file_key_of_field(cls, name: str) -> str:
        """The key of a field in a study file."""
        return cls.model_fields[name].alias or name


Option = TypeVar("Option", LayerOption, ScheduleOption, SourceOption)


def _options_of_keys(keys: Iterable[str], kind: type[Option]) -> dict[str, Option]:
    """The options of this kind among the keys of an arm."""
    return {key: option for key in keys for option in ArmSpec.model_fields[key].metadata if isinstance(option, kind)}
