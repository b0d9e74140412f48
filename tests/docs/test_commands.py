"""The page about the command line has an example of every verb, and every exit code."""

from __future__ import annotations

import re

from bln_search.cli.exit_codes import ExitCode
from bln_search.settings import Settings
from tests.docs.pages import PAGES, blocks, find_verb, shell_lines, verbs, written

PAGE = PAGES["commands.md"]


def test_every_verb_is_called_in_an_example():
    """That the examples could be given as they stand is held by test_blocks.py."""
    lines = [words[1:] for block in blocks(PAGE, "bash") for words in shell_lines(block.text)]
    called = {" ".join(words[: len(words) - len(find_verb(words)[1])]) for words in lines}
    assert called == verbs().keys()


def test_every_exit_code_is_listed():
    codes = re.findall(r"^\| (\d+) \|", written(PAGE), re.MULTILINE)
    assert [int(code) for code in codes] == sorted(ExitCode)


def test_every_variable_named_exists():
    named = re.findall(r"BLN_SEARCH_([A-Z]+)", written(PAGE))
    assert len(set(named)) == 9
    assert {name.lower() for name in named} <= Settings.model_fields.keys()
