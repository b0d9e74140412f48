"""The page about the command line has every verb with its sentence and options, and every exit code."""

from __future__ import annotations

import inspect
import re

from bln_search.cli.exit_codes import ExitCode
from bln_search.settings import Settings
from tests.docs.pages import COMMAND, PAGES, blocks, find_verb, shell_lines, written

PAGE = PAGES["commands.md"]


def verbs(command=COMMAND, name=""):
    """Every verb by its name, those of groups by both words."""
    if not hasattr(command, "commands"):
        return {name: command}
    return {
        full: verb
        for word, inner in command.commands.items()
        for full, verb in verbs(inner, f"{name} {word}".strip()).items()
    }


def rows(first):
    """The rows of the tables whose first cells match; of each row the cells."""
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in written(PAGE).splitlines() if line[:1] == "|"
    ]
    return [cells for cells in lines if re.fullmatch(first, cells[0])]


def test_every_verb_is_listed_with_its_sentence_and_options():
    told = {}
    for name, sentence, options in (cells for cells in rows(r"`[a-z].*`") if len(cells) == 3):
        words = [word for word in name.strip("`").split() if word.islower()]
        told[" ".join(words)] = (sentence, set(re.findall(r"`(--[\w-]+)`", options)))
    expected = {}
    for name, verb in verbs().items():
        sentence = " ".join(inspect.cleandoc(verb.help).split("\n\n")[0].split())
        options = [param for param in verb.params if param.param_type_name == "option" and not param.hidden]
        expected[name] = (sentence, {option.opts[0] for option in options})
    assert told == expected


def test_every_verb_is_called_in_an_example():
    """That the examples could be given as they stand is held by test_blocks.py."""
    lines = [words[1:] for block in blocks(PAGE, "bash") for words in shell_lines(block.text)]
    called = {" ".join(words[: len(words) - len(find_verb(words)[1])]) for words in lines}
    assert called == verbs().keys()


def test_every_exit_code_is_listed():
    assert [int(cells[0]) for cells in rows(r"\d+")] == sorted(ExitCode)


def test_every_variable_named_exists():
    named = re.findall(r"BLN_SEARCH_([A-Z]+)", written(PAGE))
    assert len(set(named)) == 9
    assert {name.lower() for name in named} <= Settings.model_fields.keys()
