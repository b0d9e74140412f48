"""The page about studies has every key with its default, and no other."""

from __future__ import annotations

import re
import typing
from enum import StrEnum
from inspect import signature

import pytest
import yaml
from pydantic import BaseModel

from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.registry import DATA_SETS, MODELS
from bln_search.models.factory import MODELS as FACTORIES
from bln_search.specs.arm import ArmSpec
from bln_search.specs.data import DataSpec
from bln_search.specs.layer_search import LayersSpec
from bln_search.specs.schedule import Constant, Ramp, Steps
from bln_search.specs.search import SearchSpec
from bln_search.specs.space import ChoiceDimension, FloatDimension, IntDimension, ScheduleDimension
from bln_search.specs.study import EvaluationSpec, ModelSpec, ProbesSpec, RankingSpec, StudySpec
from bln_search.specs.training import AugmentationSpec, ConstantRate, CosineRate, StepRate, TrainingSpec
from tests.docs.pages import PAGES, written

TABLES = {
    ("The study", "key"): StudySpec,
    ("`data`", "key"): DataSpec,
    ("`model`", "key"): ModelSpec,
    ("`arms`", "key"): ArmSpec,
    ("`training`", "key"): TrainingSpec,
    ("Learning rate", "key of `kind: constant`"): ConstantRate,
    ("Learning rate", "key of `kind: steps`"): StepRate,
    ("Learning rate", "key of `kind: cosine`"): CosineRate,
    ("`augmentation`", "key"): AugmentationSpec,
    ("`evaluation`", "key"): EvaluationSpec,
    ("`ranking`", "key"): RankingSpec,
    ("Schedules", "key of a number"): Constant,
    ("Schedules", "key of steps"): Steps,
    ("Schedules", "key of a ramp"): Ramp,
    ("`space`", "key of `kind: float`"): FloatDimension,
    ("`space`", "key of `kind: int`"): IntDimension,
    ("`space`", "key of `kind: choice`"): ChoiceDimension,
    ("`space`", "key of `kind: schedule`"): ScheduleDimension,
    ("`search`", "key"): SearchSpec,
    ("`probes`", "key"): ProbesSpec,
    ("`layers`", "key"): LayersSpec,
}
NEVER_ASKED_FOR = {PopulationEstimate.MEMORY, Split.TRAIN}


def tables():
    """Every table of the page by its heading and the head of its first column; of each row the cells."""
    found, heading, head = {}, "", None
    for line in written(PAGES["studies.md"]).splitlines():
        if line.startswith("#"):
            heading, head = line.lstrip("# "), None
        elif not line.startswith("|"):
            head = None
        elif head is None:
            head = line.split("|")[1].strip()
            found[heading, head] = []
        elif not line.startswith("| ---"):
            found[heading, head].append([cell.strip() for cell in line.strip().strip("|").split("|")])
    return found


def parts(kind):
    """The types a type is made of."""
    inner = typing.get_args(kind) if typing.get_origin(kind) not in (None, typing.Literal) else ()
    return [kind, *(part for one in inner if not isinstance(one, str) for part in parts(one))]


def words_of(kind):
    """The words that a field takes, where it takes only certain ones."""
    for part in parts(kind):
        if isinstance(part, type) and issubclass(part, StrEnum):
            yield from (one.value for one in part if one not in NEVER_ASKED_FOR)
        elif typing.get_origin(part) is typing.Literal:
            yield from typing.get_args(part)


def models_under(model):
    """The specification and every one inside it."""
    found = {model}
    for field in model.model_fields.values():
        for part in parts(field.annotation):
            if isinstance(part, type) and issubclass(part, BaseModel) and part not in found:
                found |= models_under(part)
    return found


def shown(field):
    """How the page writes a default."""
    if field.is_required():
        return "required"
    value = field.default
    if value is None:
        return "–"
    if isinstance(value, ConstantRate):
        return "`{kind: constant}`"
    if isinstance(value, BaseModel):
        return "every default"
    plain = [str(one) if isinstance(one, StrEnum) else one for one in value] if isinstance(value, tuple) else value
    plain = str(plain) if isinstance(plain, StrEnum) else plain
    return f"`{yaml.safe_dump(plain, default_flow_style=True).removesuffix('...' + chr(10)).strip()}`"


def test_every_part_of_a_study_has_a_table():
    assert models_under(StudySpec) == set(TABLES.values())
    assert {key for key in tables() if key[1].startswith("key")} == set(TABLES)


@pytest.mark.parametrize("place", TABLES, ids=lambda place: f"{place[0]} {place[1]}".replace("`", ""))
def test_every_key_is_listed_with_its_default(place):
    model = TABLES[place]
    expected = {f"`{field.alias or name}`": shown(field) for name, field in model.model_fields.items()}
    assert {row[0]: row[1] for row in tables()[place]} == expected
    assert all(len(row) == 3 for row in tables()[place])


@pytest.mark.parametrize("place", TABLES, ids=lambda place: f"{place[0]} {place[1]}".replace("`", ""))
def test_every_value_of_a_key_is_listed(place):
    meanings = {row[0].strip("`"): row[1] + row[2] for row in tables()[place]}
    for name, field in TABLES[place].model_fields.items():
        if any(isinstance(part, type) and issubclass(part, BaseModel) for part in parts(field.annotation)):
            continue
        for word in words_of(field.annotation):
            assert f"`{word}`" in meanings[field.alias or name], f"{name}: {word}"


def test_every_network_is_listed_with_its_options():
    rows = tables()["`model`", "network"]
    told = {name: set(re.findall(r"`(\w+)`", row[1])) for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    assert told == {name: set(options) for name, options in MODELS.items()}
    widths = {name: row[2] for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    for name, factory in FACTORIES.items():
        default = signature(factory).parameters.get("widths")
        assert widths[name] == (", ".join(map(str, default.default)) if default else ""), name


def test_what_is_set_by_default_where_nothing_is_set():
    meanings = {row[0].strip("`"): row[2] for row in tables()["`model`", "key"]}
    for option in set(ModelSpec.model_fields) - {"name", "widths", "gain"}:
        factory = FACTORIES["mlp" if option in MODELS["mlp"] else "lstm"]
        default = signature(factory).parameters[option].default
        assert meanings[option].endswith((f"by default {default}", f"by default `{default}`")), option
    arm = {row[0].strip("`"): row[2] for row in tables()["`arms`", "key"]}
    norm = ArmSpec(method="mbn").norm_options
    assert arm["memory"].endswith(f"by default {norm['memory_size']}")
    assert arm["memory_decay"].endswith(f"by default {norm['memory_decay']}")


def test_every_data_set_is_listed():
    (row,) = [row for row in tables()["`data`", "key"] if row[0] == "`name`"]
    assert set(re.findall(r"`(\w+)`", row[2])) == set(DATA_SETS)
