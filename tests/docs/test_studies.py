"""The page about studies has every key with type, default and meaning, and no other."""

from __future__ import annotations

import re
import typing
from inspect import signature

from pydantic import BaseModel

from bench.documents.reference import study_file
from bln_search.core.method import Method
from bln_search.core.registry import DATA_SETS, MODELS
from bln_search.models.factory import get_model_factory
from bln_search.specs.sections.arm import ArmSpec
from bln_search.specs.sections.external import ExternalSpec
from bln_search.specs.sections.model import ModelSpec
from bln_search.specs.sections.training import TrainingSpec
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


def test_the_committed_tables_are_those_of_the_program():
    page = written(PAGES["studies.md"])
    assert page == study_file.render(page), "run python -m bench.documents.reference.study_file --write"


def test_every_section_of_a_study_has_a_table_of_its_keys():
    found = tables()
    assert found.keys() == {*SECTIONS, "networks", study_file.ADAPTATION_METHODS}
    for name, section in SECTIONS.items():
        fields = {key: field for key, field in section.model_fields.items() if key != "external"}  # submitted results
        required = {f"`{field.alias or key}`": field.is_required() for key, field in fields.items()}
        assert {row[0]: row[2] == "required" for row in found[name]} == required
        assert all(len(row) == 4 and all(row) for row in found[name])


def test_defaults_and_values_of_keys_are_listed_and_rejected_values_are_not():
    training, arm = ({row[0].strip("`"): row for row in tables()[name]} for name in ("TrainingSpec", "ArmSpec"))
    spec = TrainingSpec()
    assert training["epochs"][2] == f"`{spec.epochs}`"
    assert training["optimizer"][2] == f"`{spec.optimizer}`"
    assert training["schedule"][2] == "`{kind: constant}`"
    assert training["augmentation"][2] == "–"
    assert set(Method) <= set(re.findall("`([^`]+)`", arm["method"][1]))
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
