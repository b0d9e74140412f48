"""`--help` groups the verbs and names environment variables, values and formats."""

from __future__ import annotations

import re

import pytest
from typer.main import get_command

from bln_search.cli.commands import VERBS, Panel
from bln_search.cli.main import app
from bln_search.settings import Settings

COMMAND = get_command(app).load_all()
VARIABLES = {"--data": "DATA", "--database": "DATABASE", "--device": "DEVICE", "--server": "SERVER", "--token": "TOKEN"}

WITHOUT_VARIABLE = [("--database", verb) for verb in ("cancel", "pause", "resume")]
"""Options by verb that are used only if they are given: otherwise a service is."""


def verbs(command=COMMAND, words=()):
    """Every verb, by its words."""
    if not hasattr(command, "commands"):
        return {words: command}
    return {
        full: verb for word, inner in command.commands.items() for full, verb in verbs(inner, (*words, word)).items()
    }


def options(verb):
    return [param for param in verb.params if param.param_type_name == "option" and not param.hidden]


def option(words, name):
    verb = verbs()[tuple(words)]
    return next(param for param in options(verb) if name in param.opts)


def plain(text):
    """The words of a help page, without frames and colours."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m|[│╭╮╰╯─]", " ", text).split())


def test_panels_hold_every_verb_in_their_order(invoke):
    page = plain(invoke("--help", env={"COLUMNS": "100"}).stdout)
    assert [page.index(f" {panel} ") for panel in Panel] == sorted(page.index(f" {panel} ") for panel in Panel)
    assert [name for verbs in VERBS.values() for name in verbs] == [*COMMAND.commands]


def test_the_list_of_verbs_has_the_first_paragraph_of_their_help():
    for name, verb in ((name, verb) for named in VERBS.values() for name, verb in named.items()):
        assert COMMAND.commands[name].help.partition("\n\n")[0] == verb.summary


def test_an_option_with_a_variable_names_it(invoke):
    assert "[env: BLN_SEARCH_DATABASE]" in plain(invoke("run", "--help", env={"COLUMNS": "200"}).stdout)
    for words, verb in verbs().items():
        for found in options(verb):
            setting = VARIABLES.get(found.opts[0])
            if setting is not None and (found.opts[0], *words) not in WITHOUT_VARIABLE:
                assert setting.lower() in Settings.model_fields
                assert f"[env: BLN_SEARCH_{setting}]" in found.help.replace("\\", ""), words


def test_values_are_named_in_capitals_and_flags_have_none():
    for words, verb in verbs().items():
        for param in verb.params:
            if getattr(param, "is_flag", False):
                assert param.metavar is None, (words, param.name)
                assert not param.secondary_opts, (words, param.name)
            elif not hasattr(param.type, "choices"):
                assert param.metavar is not None, (words, param.name)
                assert param.metavar.upper() == param.metavar, (words, param.name)


def test_same_things_have_the_same_options():
    """A written file is --output, a number of rows --limit; nothing else names them."""
    for words, verb in verbs().items():
        names = {name for found in options(verb) for name in found.opts}
        target = {"--to"} if words == ("export-runs",) else set()  # a tracker, which is no file
        assert (names - target).isdisjoint({"--to", "--top", "--on"}), words
        assert ("--output" in names) == ("-o" in names), words
        assert ("--quiet" in names) == ("-q" in names), words
    assert {
        words for words in verbs() if "-o" in {name for found in options(verbs()[words]) for name in found.opts}
    } == {
        ("init",),
        ("leaderboard",),
        ("report",),
        ("manifest",),
        ("export",),
    }


@pytest.mark.parametrize("words", [(), *verbs()], ids=lambda words: " ".join(words) or "bln-search")
def test_help_fits_80_columns_and_shortens_nothing(words, invoke):
    page = invoke(*words, "--help", env={"COLUMNS": "80"}).stdout
    assert max(map(len, page.splitlines())) <= 80
    assert "…" not in page
