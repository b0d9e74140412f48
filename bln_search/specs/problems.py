"""Problems of a study for people: where they are, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from bln_search.core.errors import SpecError
from bln_search.core.extension_point import PAPERS
from bln_search.core.method import Method
from bln_search.core.registry import (
    ADAPTATIONS,
    CORRUPTIONS,
    DATA_SETS,
    find_model_data_mismatch,
    find_model_problem,
    find_model_task_mismatch,
    find_task_data_mismatch,
)
from bln_search.core.task_plugin import TASKS
from bln_search.core.tasks import TaskName
from bln_search.specs.known_keys import format_unknown_key_advice
from bln_search.specs.pydantic_messages import translate_pydantic_error
from bln_search.specs.sections.data import Standardization
from bln_search.specs.sections.model import ModelSpec
from bln_search.specs.sections.seeds import LISTED, UNTIL_DECIDED
from bln_search.specs.split_sizes import iter_oversized_batch_messages
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import list_planned_trial_specs, make_representative_trial_specs

MAX_PROBLEMS = 50
"""Largest number of problems in one report."""

MAX_MESSAGE_LENGTH = 2_000
"""Characters of a message, which may contain a value of the study."""

MAX_NAME_LENGTH = 200
"""Characters of a key in a location."""


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
    def json_pointer(self) -> str:
        """The location as a JSON pointer (RFC 6901)."""
        parts = (str(part)[:MAX_NAME_LENGTH] for part in self.location)
        return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)

    @property
    def path(self) -> str:
        """The location with points, as in `training.epochs`."""
        return ".".join(str(part)[:MAX_NAME_LENGTH] for part in self.location)


def problems_from_pydantic_errors(
    errors: Iterable[ErrorDetails], value: object, schema: type[BaseModel] = StudySpec
) -> list[Problem]:
    """The first MAX_PROBLEMS errors that pydantic reports.

    Args:
        errors: The errors.
        value: The value that was validated.
        schema: The model that it was validated against; unknown keys are compared with its keys.
    """
    first = islice((details for details in errors if not _is_follow_up_error(details)), MAX_PROBLEMS)
    return [_problem_from_pydantic_error(details, value, schema) for details in first]


def find_data_and_model_problems(study: StudySpec) -> list[Problem]:
    """Unknown data set, model, model option or corruption; a model or conditions that do not suit the data set."""
    task = study.resolved_task.name
    task_message = find_task_data_mismatch(task, study.data.name)
    options = set(study.model.model_dump(exclude={"name"}, exclude_none=True))
    message_by_location: dict[tuple[int | str, ...], str | None] = {
        ("data", "name"): DATA_SETS.find_problem(study.data.name),
        ("data", "standardization"): None if task_message else _find_standardization_problem(study),
        ("task",): task_message,
        ("task", "name"): TASKS.find_problem(task),
        ("training", "batch_size"): _find_single_example_problem(study),
        ("probes", "geometry"): _find_geometry_problem(study),
        ("layers",): _find_layers_problem(study),
        ("model", "name"): find_model_problem(study.model.name, options)
        or find_model_data_mismatch(study.model.name, study.data.name)
        or (None if task_message else find_model_task_mismatch(study.model.name, task)),
    }
    conditions = ("evaluation", "conditions")
    info = study.data.info
    if study.evaluation.conditions and info is not None and info.text_length is not None:
        message_by_location[conditions] = (
            f"{study.data.name} consists of token ids, conditions corrupt images: remove them"
        )
    message_by_location["evaluation", "metrics"] = _find_metrics_problem(study)
    message_by_location["evaluation", "lengths"] = _find_text_lengths_problem(study)
    if study.evaluation.conditions and info is not None and info.has_several_inputs:
        message_by_location[conditions] = (
            f"an example of {study.data.name} has several inputs, conditions corrupt images: remove them"
        )
    for position, arm in enumerate(study.arms):
        message_by_location["arms", position, "method"] = _find_weight_statistics_problem(arm.method, study.model)
        if arm.from_weights and study.model.info.is_recurrent:
            message_by_location["arms", position, "from_weights"] = (
                "mean and variance cannot be propagated through a recurrent network: remove it"
            )
    for position, condition in enumerate(study.evaluation.conditions):
        message_by_location[*conditions, position] = CORRUPTIONS.find_problem(condition.corruption)
    for position, adaptation in enumerate(study.adaptation):
        message_by_location["adaptation", position, "name"] = ADAPTATIONS.find_problem(adaptation.name)
    if study.external is not None:
        message_by_location = {
            ("external",): "results of your own networks are submitted with `bln-search submit-results`, not in a study"
        }
    problems = [Problem(location, message) for location, message in message_by_location.items() if message]
    missing = [problem for problem in problems if problem.message.endswith(PAPERS)]
    return [problem for problem in problems if problem not in missing[:-1]]  # one installation solves all of them


def _find_standardization_problem(study: StudySpec) -> str | None:
    """Standardized values of a density, whose network gives the probability of the values of the data."""
    if not study.resolved_task.description.scores_input_values or study.data.standardization is Standardization.NONE:
        return None
    return (
        f"a {study.resolved_task.name} is that of the values of the data, not of {study.data.standardization} "
        "standardization: choose none"
    )


def _find_single_example_problem(study: StudySpec) -> str | None:
    """Mini-batches of one example for a task whose loss compares an example with others."""
    if not study.resolved_task.description.compares_examples:
        return None
    if min(trial.training.batch_size for trial in make_representative_trial_specs(study)) > 1:
        return None
    return f"the task {study.resolved_task.name} compares the examples of a mini-batch: train with at least 2"


def _find_layers_problem(study: StudySpec) -> str | None:
    """A search of per-layer configurations, which adds losses of mini-batches, for losses that compare all examples."""
    if study.layers is None or not study.resolved_task.description.compares_examples:
        return None
    return (
        f"the task {study.resolved_task.name} compares each example with all others, this needs a loss of each example "
        "alone: remove it"
    )


def _find_metrics_problem(study: StudySpec) -> str | None:
    """Metrics of calibration, which are those of class probabilities, in a study with another task."""
    task = study.resolved_task.name
    if not study.evaluation.metrics or task is TaskName.CLASSIFICATION:
        return None
    names = " and ".join(study.evaluation.metrics)
    return (
        f"the metrics of calibration, here {names}, are those of a classification, and the task is {task}: remove them"
    )


def _find_geometry_problem(study: StudySpec) -> str | None:
    """The probe of geometry, whose curvature is that of class probabilities, in a study with another task."""
    task = study.resolved_task.name
    if not study.measures_layer_geometry or task is TaskName.CLASSIFICATION:
        return None
    return f"curvature is that of the probabilities of classes, and the task is {task}: remove it"


def _find_weight_statistics_problem(method: Method, model: ModelSpec) -> str | None:
    """A method whose statistics come from weights, in a built-in model without the weights that it needs."""
    if not method.computes_statistics_from_weights:
        return None
    others = " or ".join(other for other in Method if not other.computes_statistics_from_weights)
    if model.info.is_recurrent and method.description.needs_weights_in_front:
        advice = f"set model.normalize to cells, or choose {others}"
        return (
            None
            if model.normalizes_products_in_cells
            else f"{method} needs weights in front of each normalization layer: {advice}"
        )
    if model.info.is_recurrent:
        return (
            f"{method} cannot be propagated through a recurrent network: choose wn with normalize: cells, or {others}"
        )
    has_placement = "placement" in model.info.options
    is_behind_weights = has_placement and model.placement == "before"
    if method.description.needs_weights_in_front and model.info.norms_follow_nonlinearity and not is_behind_weights:
        advice = "set model.placement to before" if has_placement else "choose another model, or ap2"
        return (
            f"{method} needs the weights directly in front of a normalization layer, {model.name} has it elsewhere: "
            f"{advice}"
        )
    return None


def _find_text_lengths_problem(study: StudySpec) -> str | None:
    """Lengths of data that are not texts, or of texts that are longer than a network supports."""
    lengths, info = study.evaluation.lengths, study.data.info
    if not lengths or info is None:
        return None
    if info.text_length is None:
        return f"{study.data.name} does not consist of texts, which have a length: remove lengths"
    if info.has_fixed_length:
        return f"the inputs of {study.data.name} have one length: remove lengths"
    if study.resolved_task.description.has_prediction_per_token:
        return f"the labels of {study.data.name}, one for each token, have the length of its texts: remove lengths"
    steps, model = info.text_length, study.model
    methods = sorted({arm.method.value for arm in study.arms if arm.method.has_batch_statistics})
    is_refused = model.normalizes_inside_recurrent_cells and model.longer_sequences != "last_time_step"
    if methods and is_refused and max(lengths) > steps:
        return (
            f"{' and '.join(methods)} inside cells have statistics for the {steps} time steps of {study.data.name}, a "
            f"text of length {max(lengths)} has more: set model.longer_sequences to last_time_step, or lower lengths"
        )
    return None


def find_unknown_name_problems_in_raw_study(value: Mapping[Any, Any]) -> list[Problem]:
    """Unknown data set or model in a study that could not be validated because of other problems."""
    problems = []
    for section, check in (("data", DATA_SETS.find_problem), ("model", lambda name: find_model_problem(name, set()))):
        section_value = value.get(section)
        name = section_value.get("name") if isinstance(section_value, Mapping) else None
        message = check(name) if isinstance(name, str) else None
        if message:
            problems.append(Problem((section, "name"), message))
    return problems


def find_space_problems(study: StudySpec) -> list[Problem]:
    """Points of the space that an arm cannot take, or a grid with too many points."""
    try:
        make_representative_trial_specs(study)
        list_planned_trial_specs(study)
    except SpecError as error:
        return [Problem(("space",), problem, names_location=True) for problem in error.problems]
    return []


def find_oversized_batch_problems(study: StudySpec) -> list[Problem]:
    """Mini-batches larger than a split, if the sizes of the data set are known. The space must have no problems."""
    return [Problem(location, message) for location, message in iter_oversized_batch_messages(study)]


def _problem_from_pydantic_error(details: ErrorDetails, value: object, schema: type[BaseModel]) -> Problem:
    location = _location_without_union_tags(details["loc"], value)
    if details["type"] == "extra_forbidden":
        message = f"unknown key{format_unknown_key_advice(schema, location)}"
    elif details["type"] == "missing":
        message = "this key is missing; add it"
    else:
        message = translate_pydantic_error(details)
    return Problem(
        tuple(location), message if len(message) <= MAX_MESSAGE_LENGTH else message[:MAX_MESSAGE_LENGTH] + "…"
    )


def _is_follow_up_error(details: ErrorDetails) -> bool:
    """Is this a list that is too short only because its invalid members, which have their own errors, were dropped?"""
    return details["type"] == "too_short" and bool(details["input"])


def _location_without_union_tags(pydantic_location: Sequence[int | str], root: object) -> list[int | str]:
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
            if values or (last and not _is_union_tag(part)):
                location.append(part)
        elif isinstance(part, str) and last and not _is_union_tag(part) and node is None:
            location.append(part)
    return location


def _is_union_tag(part: int | str) -> bool:
    """Is this the tag of a member of a union?"""
    names = (
        "constant",
        "steps",
        "linear",
        "cosine",
        "int",
        "float",
        "constrained-int",
        "constrained-float",
        LISTED,
        UNTIL_DECIDED,
    )
    return isinstance(part, str) and (part in names or "[" in part)
