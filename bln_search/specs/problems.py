"""Problems of a study for people: where they are, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from bln_search.core.errors import SpecError
from bln_search.core.registry import TEXT_DATA_SETS, corruption_problem, data_problem, model_data_problem, model_problem
from bln_search.specs.known_keys import unknown_key_advice
from bln_search.specs.sizes import oversized_batches
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import boundary_trials, list_planned_trials
from bln_search.specs.wording import error_message

MAX_PROBLEMS = 50
"""Largest number of problems in one report."""


@dataclass(frozen=True)
class Problem:
    """One problem.

    Attributes:
        location: Keys and list positions that lead to it.
        message: What is wrong, and what to do.
        names_location: Whether the message names the location itself.
    """

    location: tuple[int | str, ...]
    message: str
    names_location: bool = False

    @property
    def pointer(self) -> str:
        """The location as a JSON pointer (RFC 6901)."""
        return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in self.location)


def problems_of(errors: Iterable[ErrorDetails], value: object, schema: type[BaseModel] = StudySpec) -> list[Problem]:
    """The first MAX_PROBLEMS errors that pydantic reports.

    Args:
        errors: The errors.
        value: The value that was validated.
        schema: The model that it was validated against; unknown keys are compared with its keys.
    """
    first = islice((details for details in errors if not _is_follow_up_error(details)), MAX_PROBLEMS)
    return [_make_problem(details, value, schema) for details in first]


def name_problems(study: StudySpec) -> list[Problem]:
    """Unknown data set, model, model option or corruption; a model or conditions that do not suit the data set."""
    options = set(study.model.model_dump(exclude={"name"}, exclude_none=True))
    message_by_location: dict[tuple[int | str, ...], str | None] = {
        ("data", "name"): data_problem(study.data.name),
        ("model", "name"): model_problem(study.model.name, options)
        or model_data_problem(study.model.name, study.data.name),
    }
    conditions = ("evaluation", "conditions")
    if study.evaluation.conditions and study.data.name in TEXT_DATA_SETS:
        message_by_location[conditions] = (
            f"{study.data.name} consists of token ids, conditions corrupt images: remove them"
        )
    for position, condition in enumerate(study.evaluation.conditions):
        message_by_location[*conditions, position] = corruption_problem(condition.corruption)
    if study.external is not None:
        message_by_location = {
            ("external",): "results of your own networks are submitted with `bln-search submit-results`, not in a study"
        }
    return [Problem(location, message) for location, message in message_by_location.items() if message]


def unread_name_problems(value: Mapping[Any, Any]) -> list[Problem]:
    """Unknown data set or model in a study that could not be validated because of other problems."""
    problems = []
    for section, check in (("data", data_problem), ("model", lambda name: model_problem(name, set()))):
        section_value = value.get(section)
        name = section_value.get("name") if isinstance(section_value, Mapping) else None
        message = check(name) if isinstance(name, str) else None
        if message:
            problems.append(Problem((section, "name"), message))
    return problems


def space_problems(study: StudySpec) -> list[Problem]:
    """Points of the space that an arm cannot take, or a grid with too many points."""
    try:
        boundary_trials(study)
        list_planned_trials(study)
    except SpecError as error:
        return [Problem(("space",), problem, names_location=True) for problem in error.problems]
    return []


def oversized_batch_problems(study: StudySpec) -> list[Problem]:
    """Mini-batches larger than a split, if the sizes of the data set are known. The space must have no problems."""
    return [Problem(location, message) for location, message in oversized_batches(study)]


def _make_problem(details: ErrorDetails, value: object, schema: type[BaseModel]) -> Problem:
    location = _locate_value(details["loc"], value)
    if details["type"] == "extra_forbidden":
        message = f"unknown key{unknown_key_advice(schema, location)}"
    elif details["type"] == "missing":
        message = "this key is missing; add it"
    else:
        message = error_message(details)
    return Problem(tuple(location), message)


def _is_follow_up_error(details: ErrorDetails) -> bool:
    """Is this a list that is too short only because its invalid members, which have their own errors, were dropped?"""
    return details["type"] == "too_short" and bool(details["input"])


def _locate_value(pydantic_location: Sequence[int | str], root: object) -> list[int | str]:
    """The location in the value: pydantic's location without the tags of unions, which the value does not contain.

    The last part stays if it may be a missing key.
    """
    node: Any = root
    location: list[int | str] = []
    for position, part in enumerate(pydantic_location):
        last = position == len(pydantic_location) - 1
        if isinstance(node, list) and isinstance(part, int):
            node = node[part] if part < len(node) else None
            location.append(part)
        elif isinstance(node, dict):
            values = [node[part]] if part in node else [node[key] for key in node if str(key) == str(part)]
            node = values[0] if values else node
            if values or (last and not _is_tag(part)):
                location.append(part)
        elif isinstance(part, str) and last and not _is_tag(part) and node is None:
            location.append(part)
    return location


def _is_tag(part: int | str) -> bool:
    """Is this the tag of a member of a union?"""
    names = ("constant", "steps", "linear", "cosine", "int", "float", "constrained-int", "constrained-float")
    return isinstance(part, str) and (part in names or "[" in part)
