"""An arm: one way of normalizing the network."""

from __future__ import annotations

from math import inf
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, field_validator, model_validator

from bln_search.core.configuration import InferenceConfiguration, Method, paper_configuration
from bln_search.core.enums import PopulationEstimate, Semantics
from bln_search.specs.base import Spec, each_once
from bln_search.specs.schedule import Constant, Ramp, Schedule, Steps


def _configuration(value: Any) -> Any:
    return InferenceConfiguration(value) if isinstance(value, str) else value


ConfigurationWord = Annotated[
    InferenceConfiguration, BeforeValidator(_configuration), PlainSerializer(str, return_type=str)
]


PAPER_LAMBDA = Steps(steps={0.0: 0.1, 0.4: 0.5, 0.6: 0.9})
"""λ of the MBN paper: 0.1, then 0.5 at 40 % and 0.9 at 60 % of training."""

PAPER_R_MAX = Ramp(kind="linear", initial=1, final=3, begin=0.05, end=0.4)
PAPER_D_MAX = Ramp(kind="linear", initial=0, final=5, begin=0.05, end=0.25)
"""The ramps of BRN, from BN to r_max = 3 and d_max = 5, at fractions of training instead of numbers of steps."""

_OPTIONS = {Method.MBN: ("memory", "memory_decay", "lambda_"), Method.BRN: ("r_max", "d_max")}
_BOUNDS = (("lambda_", 0.0, 1.0), ("r_max", 1.0, inf), ("d_max", 0.0, inf))


def asked_for(value: tuple[PopulationEstimate, ...]) -> tuple[PopulationEstimate, ...]:
    """The estimates as they are; `memory` among them is an error."""
    if PopulationEstimate.MEMORY in value:
        raise ValueError("memory is not a population estimate to ask for: configurations with M read it by themselves")
    return value


class ArmSpec(Spec):
    """One way of normalizing the network.

    judged_under: the configuration under which epochs are compared for `best_validation`; by default the mini-batch's
    own statistics throughout, for MBN the memory's. population: the estimates evaluated for this arm instead of the
    study's. momentum: decay of the `moving` estimate, and of BRN's own averages.
    memory, memory_decay, lambda: k, η and λ of MBN. r_max, d_max: the ramps of BRN.
    double_forward: after each step a second pass of the same mini-batch with the new weights records its statistics.
    """

    added_later = frozenset({"memory", "memory_decay", "lambda_", "r_max", "d_max", "double_forward"})

    method: Method
    name: str | None = Field(default=None, pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")
    semantics: Semantics = Semantics.PAPER
    epsilon: Annotated[float, Field(gt=0, le=1)] | None = None
    momentum: Annotated[float, Field(gt=0, lt=1)] = 0.99
    judged_under: ConfigurationWord | None = None
    population: tuple[PopulationEstimate, ...] | None = Field(default=None, min_length=1)
    memory: Annotated[int, Field(ge=1, le=100_000)] | None = None
    memory_decay: Annotated[float, Field(gt=0, le=1)] | None = None
    lambda_: Schedule | None = Field(default=None, alias="lambda")
    r_max: Schedule | None = None
    d_max: Schedule | None = None
    double_forward: bool = False

    @property
    def label(self) -> str:
        """What the arm is called: its name, else its method."""
        return self.name or self.method.value

    @property
    def judge(self) -> InferenceConfiguration:
        """The configuration under which epochs are compared."""
        return self.judged_under or paper_configuration(self.method)

    @property
    def norm_options(self) -> dict[str, Any]:
        """What a layer of this method is made with beyond the options of every layer."""
        if self.method is Method.MBN:
            return {"memory_size": self.memory or 20, "memory_decay": self.memory_decay or 0.9}
        return {"momentum": self.momentum} if self.method is Method.BRN else {}

    @property
    def schedules(self) -> dict[str, Constant | Steps | Ramp]:
        """The attributes of a layer that change while it trains."""
        if self.method is Method.MBN:
            return {"lambda_": self.lambda_ or PAPER_LAMBDA}
        if self.method is Method.BRN:
            return {"r_max": self.r_max or PAPER_R_MAX, "d_max": self.d_max or PAPER_D_MAX}
        return {}

    @field_validator("population")
    @classmethod
    def _once(cls, value: tuple[PopulationEstimate, ...] | None) -> tuple[PopulationEstimate, ...] | None:
        return None if value is None else asked_for(each_once(value, "population"))

    @model_validator(mode="after")
    def _judge_fits(self) -> ArmSpec:
        if not self.judge.fits(self.method):
            raise ValueError(
                f"judged_under {self.judge} does not name the statistics of {self.method}: "
                f"write it like {paper_configuration(self.method)}"
            )
        return self

    @model_validator(mode="after")
    def _options_of_the_method(self) -> ArmSpec:
        for method, names in _OPTIONS.items():
            given = [self.written_name(name) for name in names if getattr(self, name) is not None]
            if given and self.method is not method:
                raise ValueError(
                    f"{', '.join(given)} belongs to the method {method}, the arm is {self.method}: remove it"
                )
        for name, lowest, highest in _BOUNDS:
            schedule: Constant | Steps | Ramp | None = getattr(self, name)
            if schedule is not None and not all(lowest <= value <= highest for value in schedule.extremes):
                allowed = f"between {lowest:g} and {highest:g}" if highest < inf else f"at least {lowest:g}"
                raise ValueError(f"{self.written_name(name)} stays {allowed}, not {schedule}")
        return self

    @classmethod
    def written_name(cls, name: str) -> str:
        """What the field is called in a study file."""
        return cls.model_fields[name].alias or name
