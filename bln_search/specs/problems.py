"""What is wrong with a study, for people: where it is, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Any

from pydantic_core import ErrorDetails

from bln_search.core.errors import SpecError
from bln_search.core.registry import data_problem, model_problem, pair_problem
from bln_search.specs.arm import ArmSpec
from bln_search.specs.base import Spec
from bln_search.specs.data import DataSpec
from bln_search.specs.layer_search import LayersSpec
from bln_search.specs.search import SearchSpec
from bln_search.specs.sizes import oversized
from bln_search.specs.study import EvaluationSpec, ModelSpec, ProbesSpec, RankingSpec, StudySpec
from bln_search.specs.training import TrainingSpec
from bln_search.specs.trial import border_trials, trials_of
from bln_search.specs.wording import sentence

MOST_PROBLEMS = 50
"""Mistakes that are told at once."""


@dataclass(frozen=True)
class Problem:
    """One mistake. place: keys and positions that lead to it. whole: the message names the place itself."""

    place: tuple[int | str, ...]
    message: str
    whole: bool = False

    @property
    def pointer(self) -> str:
        """The place as a JSON pointer (RFC 6901)."""
        return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in self.place)


def problems_of(errors: Iterable[ErrorDetails], value: object) -> list[Problem]:
    """What pydantic found wrong in `value`, the first of it: who sends thousands of mistakes needs no more."""
    first = islice((details for details in errors if not _follows_from_another(details)), MOST_PROBLEMS)
    return [_problem(details, value) for details in first]


def name_problems(study: StudySpec) -> list[Problem]:
    """No such data set or model, no such option of the model, or a model that cannot take this data."""
    options = set(study.model.model_dump(exclude={"name"}, exclude_none=True))
    found = {
        ("data", "name"): data_problem(study.data.name),
        ("model", "name"): model_problem(study.model.name, options) or pair_problem(study.model.name, study.data.name),
    }
    return [Problem(place, message) for place, message in found.items() if message]


def unread_name_problems(value: Mapping[Any, Any]) -> list[Problem]:
    """No such data set or model, in a study that has other mistakes and could not be read."""
    found = []
    for section, problem in (("data", data_problem), ("model", lambda name: model_problem(name, set()))):
        inner = value.get(section)
        name = inner.get("name") if isinstance(inner, Mapping) else None
        message = problem(name) if isinstance(name, str) else None
        if message:
            found.append(Problem((section, "name"), message))
    return found


def space_problems(study: StudySpec) -> list[Problem]:
    """Points of the space that an arm cannot take, or a space too large to write out."""
    try:
        border_trials(study)
        trials_of(study)
    except SpecError as error:
        return [Problem(("space",), problem, whole=True) for problem in error.problems]
    return []


def size_problems(study: StudySpec) -> list[Problem]:
    """Mini-batches that a split does not hold, where the sizes of the data set are known; none of a wrong space."""
    return [Problem(place, message) for place, message in oversized(study)]


def _problem(details: ErrorDetails, value: object) -> Problem:
    place = _place(details["loc"], value)
    if details["type"] == "extra_forbidden":
        message = f"unknown key{_suggestion(place)}"
    elif details["type"] == "missing":
        message = "this key is missing; add it"
    else:
        message = sentence(details)
    return Problem(tuple(place), message)


def _follows_from_another(details: ErrorDetails) -> bool:
    """A list that is too short only because its members were refused, each with an error of its own."""
    return details["type"] == "too_short" and bool(details["input"])


def _place(location: Sequence[int | str], root: object) -> list[int | str]:
    """A location without the names that pydantic puts in for members of a union: what is not in the value is left out.

    The last part stays where it may be the name of a key that is missing.
    """
    inner: Any = root
    place: list[int | str] = []
    for position, part in enumerate(location):
        last = position == len(location) - 1
        if isinstance(inner, list) and isinstance(part, int):
            inner = inner[part] if part < len(inner) else None
            place.append(part)
        elif isinstance(inner, dict):
            found = [inner[part]] if part in inner else [one for key, one in inner.items() if str(key) == str(part)]
            inner = found[0] if found else inner
            if found or (last and not _is_tag(part)):
                place.append(part)
        elif isinstance(part, str) and last and not _is_tag(part) and inner is None:
            place.append(part)
    return place


def _is_tag(part: int | str) -> bool:
    """Names that pydantic gives to members of a union."""
    names = ("constant", "steps", "linear", "cosine", "int", "float", "constrained-int", "constrained-float")
    return isinstance(part, str) and (part in names or "[" in part)


_SECTIONS: dict[str, type[Spec]] = {
    "data": DataSpec,
    "model": ModelSpec,
    "arms": ArmSpec,
    "training": TrainingSpec,
    "evaluation": EvaluationSpec,
    "ranking": RankingSpec,
    "search": SearchSpec,
    "probes": ProbesSpec,
    "layers": LayersSpec,
}


def _suggestion(place: Sequence[int | str]) -> str:
    section = _SECTIONS.get(str(place[0])) if len(place) > 1 else StudySpec
    if section is None:
        return "; remove it"
    known = [field.alias or name for name, field in section.model_fields.items()]
    close = get_close_matches(str(place[-1]), known, n=1)
    return f"; did you mean `{close[0]}`?" if close else f"; known here: {', '.join(known)}"
