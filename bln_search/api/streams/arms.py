"""The arms and the stream of a call, from its arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic import ValidationError

from bln_search.adaptation.arms import StreamArm
from bln_search.core.method import Method
from bln_search.core.registry import ADAPTATIONS
from bln_search.core.streams import SelectionData
from bln_search.norms.row_batching.row_tensor import InferenceRow
from bln_search.specs.pydantic_messages import translate_pydantic_error
from bln_search.specs.sections.adaptation import AdaptationSpec
from bln_search.specs.sections.stream import StreamSpec
from bln_search.specs.spec_section import SpecSection

ArmArgument = str | Mapping[str, Any]

SectionT = TypeVar("SectionT", bound=SpecSection)


@dataclass(frozen=True)
class CandidateArms:
    """An arm with its candidates, of which one is selected; a single one without a selection.

    Attributes:
        label: Name in tables.
        arms: The candidates.
    """

    label: str
    arms: tuple[StreamArm, ...]

    @property
    def has_selection(self) -> bool:
        """Whether there is more than one candidate."""
        return len(self.arms) > 1

    def selected(self, candidate: int, selected_on: SelectionData) -> StreamArm:
        """A candidate as an arm of the table, whose label says by which data it was selected."""
        label = f"{self.label} ({selected_on.label})"
        return replace(self.arms[candidate], label=label, selected_on=selected_on)


def parse_stream(stream: Mapping[str, Any]) -> StreamSpec:
    """The stream of keyword arguments. Raises ValueError for an unknown or invalid one."""
    return _validate("the stream", StreamSpec, dict(stream))


def parse_arms(adapt: Sequence[ArmArgument]) -> list[AdaptationSpec]:
    """The arms of `adapt`.

    Raises:
        ModelError: There is no such method.
        TypeError: It is not a list.
        ValueError: An arm is not possible, or two have the same label.
    """
    if isinstance(adapt, str | Mapping) or not isinstance(adapt, Sequence):
        raise TypeError(f'adapt is a list of arms, as in ["none", "tent"], not {adapt!r}')
    arms = [
        _validate(f"adapt[{number}]", AdaptationSpec, dict(arm) if isinstance(arm, Mapping) else arm)
        for number, arm in enumerate(adapt)
    ]
    for arm in arms:
        ADAPTATIONS.load_info(arm.name)
    labels = [arm.display_label for arm in arms]
    repeated = next((label for label in labels if labels.count(label) > 1), None)
    if repeated is not None:
        raise ValueError(f"two arms are called {repeated!r}: give each a `label` of its own")
    if not arms:
        raise ValueError('adapt is empty: give at least one arm, as in ["none", "tent"]')
    return arms


def make_arms(specs: Sequence[AdaptationSpec], method: Method, population: str) -> list[CandidateArms]:
    """The arms on a network of a normalization method, which read a population.

    Raises:
        ValueError: A configuration does not fit the method.
    """
    return [
        CandidateArms(
            spec.display_label,
            tuple(
                _make_arm(candidate, spec.display_label, method, population) for candidate in spec.expand_candidates()
            ),
        )
        for spec in specs
    ]


def _make_arm(spec: AdaptationSpec, label: str, method: Method, population: str) -> StreamArm:
    configuration = spec.make_configuration(method)
    row = InferenceRow(configuration, spec.make_estimate(configuration, population))
    return StreamArm(label, row, spec.name, spec.own_options)


def _validate(name: str, section: type[SectionT], value: object) -> SectionT:
    """Return a section. Raises ValueError with all its problems, for arguments instead of a file."""
    try:
        return section.model_validate(value)
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, details['loc']))}: {translate_pydantic_error(details)}".removeprefix(": ")
            for details in error.errors()
        ]
        raise ValueError(f"{name}: {'; '.join(problems)}") from None
