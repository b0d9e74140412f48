"""The page about studies has every key with type, default and meaning, and no other."""

from __future__ import annotations

import re
import typing
from enum import StrEnum
from inspect import signature

import pytest
import yaml
from pydantic import BaseModel

from bench.documents.reference import study_file
from bln_search.core.registry import DATA_SETS, MODELS
from bln_search.models.factory import get_model_factory
from bln_search.specs.sections.arm import ArmSpec
from bln_search.specs.sections.external import ExternalSpec
from bln_search.specs.sections.model import ModelSpec
from bln_search.specs.sections.training import ConstantRate
from bln_search.specs.study import StudySpec
from tests.docs.pages import PAGES, written


def parts(kind):
    """The types a type is made of."""
    inner = typing.get_args(kind) if typing.get_origin(kind) not in (None, typing.Literal) else ()
    return [kind, *(part for argument in inner if not isinstance(argument, str) for part in parts(argument))]


def sections_under(model):
    """The specification and every one inside it."""
    sections = {model}
    for field in model.model_fields.values():
        for part in parts(field.annotation):
            if isinstance(part, type) and issubclass(part, BaseModel) and part not in sections:
                sections |= sections_under(part)
    return sections


SECTIONS = {
    section.__name__: section
    for section in sections_under(StudySpec)
    if section not in sections_under(ExternalSpec)  # of submitted results, not of a study file
}


def tables():
    """The cells of each row, by the class that a table is generated from; `networks` is written by hand."""
    found, name = {}, None
    for line in written(PAGES["studies.md"]).splitlines():
        marker = re.fullmatch(r"<!-- (\w+) -->", line)
        name = marker[1] if marker else "networks" if line.startswith("| network") else name
        if line.startswith("| `"):
            found.setdefault(name, []).append([cell.strip() for cell in line.strip().strip("|").split("|")])
    return found


def values_of(kind):
    """The values that a field takes, where it takes only certain ones."""
    for part in parts(kind):
        if isinstance(part, type) and issubclass(part, StrEnum):
            yield from {member.value for member in part} - study_file.REJECTED.get(part.__name__, set())
        elif typing.get_origin(part) is typing.Literal:
            yield from typing.get_args(part)


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


def test_the_committed_tables_are_those_of_the_program():
    page = written(PAGES["studies.md"])
    assert page == study_file.render(page), "run python -m bench.documents.reference.study_file --write"


def test_every_section_of_a_study_has_a_table():
    assert tables().keys() == {*SECTIONS, "networks"}


@pytest.mark.parametrize("name", sorted(SECTIONS))
def test_every_key_has_type_default_and_meaning(name):
    fields = SECTIONS[name].model_fields
    fields = {key: field for key, field in fields.items() if key != "external"}  # of submitted results
    expected = {f"`{field.alias or key}`": shown(field) for key, field in fields.items()}
    assert {row[0]: row[2] for row in tables()[name]} == expected
    assert all(len(row) == 4 and all(row) for row in tables()[name])


@pytest.mark.parametrize("name", sorted(SECTIONS))
def test_every_value_of_a_key_is_listed(name):
    types = {row[0].strip("`"): row[1] for row in tables()[name]}
    for key, field in SECTIONS[name].model_fields.items():
        if not any(isinstance(part, type) and issubclass(part, BaseModel) for part in parts(field.annotation)):
            assert set(values_of(field.annotation)) <= set(re.findall("`([^`]+)`", types[field.alias or key])), key


def test_a_value_that_is_always_rejected_is_not_listed():
    exceptions = ("`splits`", "`memory_sources`")  # which take `train` alone, and names of the memory
    types = [row[1] for rows in tables().values() for row in rows if row[0] not in exceptions]
    assert not any(re.search("`(memory|last_step|train)`", text) for text in types)


def test_every_network_is_listed_with_its_options():
    rows = tables()["networks"]
    told = {name: set(re.findall(r"`(\w+)`", row[1])) for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    models = {name: MODELS.load_info(name) for name in MODELS.list_names()}
    assert told == {name: set(info.all_options) for name, info in models.items()}
    widths = {name: row[2] for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    for name in models:
        default = signature(get_model_factory(name)).parameters.get("widths")
        assert widths[name] == (", ".join(map(str, default.default)) if default else ""), name


OPTIONS_OF_CELLS = ("gain", "longer_sequences", "mask_padding")
"""Options whose default in Python is None, because without normalization inside cells they have no value."""


def test_defaults_that_depend_on_the_network_or_method_are_true():
    meanings = {row[0].strip("`"): row[3] for row in tables()["ModelSpec"]}
    for option in set(ModelSpec.model_fields) - {"name", "widths", "output_norm", *OPTIONS_OF_CELLS}:
        model = next(name for name in ("mlp", "vgg16", "lstm") if option in MODELS.load_info(name).options)
        default = signature(get_model_factory(model)).parameters[option].default
        default = str(default).lower() if isinstance(default, bool) else default
        assert meanings[option].endswith((f"by default {default}.", f"by default `{default}`.")), option
    assert meanings["output_norm"].endswith("by default none.")
    assert signature(get_model_factory("mlp")).parameters["output_norm"].default is False
    arm = {row[0].strip("`"): row[3] for row in tables()["ArmSpec"]}
    norm = ArmSpec(method="mbn").norm_layer_options
    assert arm["memory"].endswith(f"by default {norm['memory_size']}.")
    assert arm["memory_decay"].endswith(f"by default {norm['memory_decay']}.")


def test_every_data_set_is_listed():
    (row,) = [row for row in tables()["DataSpec"] if row[0] == "`name`"]
    assert set(re.findall(r"`(\w+)`", row[3])) == set(DATA_SETS.built_in)
