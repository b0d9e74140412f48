"""A missing extra is one clear error."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest

from bln_search.cli.extras import EXTRAS, find_missing_training_package_error, find_package_error_for_module_not_found
from tests.conftest import ROOT

PROGRAM = """
import sys
sys.modules[{package!r}] = None
from bln_search.cli.main import main
sys.argv = ["bln-search", *{words!r}]
main()
"""


@pytest.mark.parametrize(
    ("package", "arguments", "extra"),
    [
        ("httpx", ["list", "--server", "http://127.0.0.1:9"], "service"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("uvicorn", ["serve", "--no-worker"], "service"),
                ("psycopg", ["list", "--database", "postgresql+psycopg://127.0.0.1:9/none"], "postgres"),
                ("pyarrow", ["leaderboard", "none", "--format", "parquet"], "search"),
                ("torch", ["run", str(ROOT / "studies" / "quickstart.yaml")], "search"),
                ("jinja2", ["report", "none", "--output", "none.html"], "search"),
                ("torch", ["worker", "--once"], "search"),
                ("sklearn", ["run", str(ROOT / "studies" / "quickstart.yaml")], "search"),
            )
        ),
    ],
)
def test_missing_package_error_names_the_extra(package, arguments, extra):
    program = PROGRAM.format(package=package, words=arguments)
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert process.returncode == 1
    (message,) = process.stderr.splitlines()
    assert message.startswith(f"error: {package} ")
    assert message.endswith(f"pip install 'bln-search[{extra}]'")


def test_every_package_of_the_extras_is_known():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    distributions = packages_distributions()
    for extra, brings in EXTRAS.items():
        required = {re.match(r"[\w-]+", requirement)[0] for requirement in extras[extra]}
        known = {name.lower().replace("_", "-") for package in brings for name in distributions[package]}
        assert known == required, extra


@pytest.mark.parametrize(
    ("name", "verb", "extra"),
    [
        ("x", "run", None),
        ("torch.fx", "run", "search"),
        ("sqlalchemy", "list", "search"),
        ("sqlalchemy", "serve", "service"),
        ("sqlalchemy", "watch", "service"),
        ("httpx", "cancel", "service"),
    ],
)
def test_a_package_is_attributed_to_the_extra_that_the_verb_needs(name, verb, extra):
    error = find_package_error_for_module_not_found(ModuleNotFoundError("No module", name=name), [verb])
    assert (None if error is None else str(error).split("'")[1]) == (extra and f"bln-search[{extra}]")


def test_missing_training_package_is_found_without_imports(monkeypatch):
    assert find_missing_training_package_error() is None
    monkeypatch.setattr("bln_search.cli.extras.find_spec", lambda name: None if name == "torch" else object())
    assert "torch is not installed" in str(find_missing_training_package_error())


_EVERY_VERB = """
import sys
sys.modules.update(dict.fromkeys({hidden!r}))
from bln_search.cli.commands import VERBS
from bln_search.cli.main import main
for words in [[], *([name] for verbs in VERBS.values() for name in verbs)]:
    sys.argv = ["bln-search", *words, "--help"]
    try:
        main()
    except SystemExit as end:
        print("ENDED", end.code, file=sys.stderr, flush=True)
"""


def test_without_extras_the_command_has_its_help_and_a_verb_names_what_it_needs():
    hidden = sorted(set().union(*EXTRAS.values()) - {"jinja2", "markdown_it"})  # torch and rich bring these two
    program = _EVERY_VERB.format(hidden=hidden)
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    error = r"error: \w+ is not installed, which this needs: pip install 'bln-search\[(search|service)\]'\n"
    ends = re.findall(rf"({error}|)ENDED (\d)\n", process.stderr)
    assert len(ends) > 35
    assert ends[0] == ("", "", "0")
    assert {code for text, _, code in ends if text} == {"1"}
    assert {code for text, _, code in ends if not text} == {"0"}
    assert process.stderr == "".join(f"{text}ENDED {code}\n" for text, _, code in ends)
