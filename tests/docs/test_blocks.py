"""Every block of code on every page and in the README is run or checked."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib.metadata import EntryPoint

import pytest
import yaml

from bln_search.core import registry
from bln_search.search.preflight import check_model_fits_data
from bln_search.settings import Settings
from bln_search.specs import parse_study
from bln_search.specs.study import StudySpec
from tests.conftest import ROOT
from tests.docs.pages import (
    DOCS,
    OPENAPI_PATHS,
    TEXTS,
    blocks,
    check_call,
    check_docker,
    check_kubectl,
    check_options,
    check_ray,
    code_words,
    never_ends,
    prose,
    run_python,
    shell_lines,
    written,
)

CARRIED_OUT = {
    *("README.md", "compare.md", "networks.md", "own_network.md", "plugins.md", "recurrent.md", "rest.md", "shift.md"),
    *("integrations.md", "service.md", "start.md", "tasks.md"),
}
"""Pages whose Python blocks need more than themselves, or are run for what they print; they have tests of their own."""

PLAIN = {
    *("export", "cat", "pip", "uv", "sqlite3", "rsync", "install", "openssl", "chmod", "echo", "printf", "git", "sudo"),
    "source",
}
"""Commands of the system, about which nothing here can be wrong but their names."""

LANGUAGES = {"python", "yaml", "bash", "toml", "sql", "text"}
MAKE = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
PLUGINS = {
    group: {name: EntryPoint(name, value, group) for name, value in points.items()}
    for group, points in tomllib.loads(blocks(TEXTS["plugins.md"], "toml")[0].text)["project"]["entry-points"].items()
}
BASE = {"name": "base", "data": {"name": "digits"}, "model": {"name": "mlp"}, "arms": [{"method": "bln"}]}


def with_language(language):
    return [name for name, page in TEXTS.items() if blocks(page, language)]


@pytest.mark.parametrize("name", TEXTS)
def test_every_block_says_what_it_is(name):
    """Python, YAML, shell and TOML are checked below; everything else is marked as text, and nothing is indented."""
    page = TEXTS[name]
    assert {block.language for block in blocks(page)} <= LANGUAGES
    assert 2 * len(blocks(page)) == len(re.findall("^ *```", written(page), re.MULTILINE))
    assert not re.search(r"(^|\n\n) {4}(?![-*] |\d+\. )\S", re.sub(r"<!--.*?-->", "", prose(page), flags=re.DOTALL))


@pytest.mark.parametrize("name", [name for name in with_language("python") if name not in CARRIED_OUT])
def test_the_python_blocks_run_one_after_the_other(name, tmp_path):
    run_python("\n".join(block.text for block in blocks(TEXTS[name], "python")), where=tmp_path)


@pytest.mark.parametrize("name", with_language("yaml"))
def test_studies_and_their_sections_are_valid(name, tmp_path, monkeypatch):
    """A part of a study says so, and is checked in a small study. Plugins have a test of their own."""
    if name == "plugins.md":  # what its package would add
        infos = [block.text for block in blocks(TEXTS[name], "python") if block.title == "own_infos.py"]
        (tmp_path / "own_infos.py").write_text("\n".join(infos))
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(registry.MODELS, "plugins", PLUGINS["bln_search.model_infos"])
        monkeypatch.setattr(registry.DATA_SETS, "plugins", PLUGINS["bln_search.data_set_infos"])
    for block in blocks(TEXTS[name], "yaml"):
        given = yaml.safe_load(block.text)
        assert ("name" not in given) == block.text.startswith("# part of a study\n"), f"{name}, line {block.line}"
        if "name" in given:
            study = parse_study(block.text, source=f"{name}, line {block.line}")
        else:
            assert given.keys() <= StudySpec.model_fields.keys(), f"{name}, line {block.line}"
            study = parse_study(yaml.safe_dump({**BASE, **given}), source=f"{name}, line {block.line}")
        if name != "plugins.md":
            check_model_fits_data(study)


@pytest.mark.parametrize("name", with_language("bash"))
def test_commands_could_be_given_as_they_stand(name):
    """Verbs, options and values of `bln-search`, targets of make, paths and methods of the REST API."""
    for block in blocks(TEXTS[name], "bash"):
        process = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True)
        assert process.returncode == 0, f"{name}, line {block.line}: {process.stderr}"
        lines = shell_lines(block.text)
        for program, *words in lines:
            if program in CHECKS:
                CHECKS[program](words)
            else:
                assert program in PLAIN, f"{name}: what checks {program}?"
        if name != "commands.md":  # a list of examples; other blocks can be pasted
            assert not [words for words in lines[:-1] if never_ends(words)], f"{name}, line {block.line}"


EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]


@pytest.mark.parametrize("name", TEXTS)
def test_every_extra_named_exists(name):
    text = " ".join(written(TEXTS[name]).split())
    lists = re.findall(r"(?:bln[-_]search[-\w.]*|\B\.)\[([a-z0-9,]+)\]", text)
    named = {extra for extras in lists for extra in extras.split(",")}
    named |= set(re.findall(r"extras? `([a-z0-9]+)`", text)) | set(re.findall(r"extras `\w+` and `(\w+)`", text))
    assert named <= EXTRAS.keys()


SETTINGS = {*Settings.model_fields, "settings"}
FILES = {file.name: file for file in DOCS.glob("*/*") if file.suffix not in (".svg", ".png", ".pyc")}


@pytest.mark.parametrize("name", [*TEXTS, *FILES])
def test_every_setting_named_exists(name):
    named = re.findall(r"\bBLN_SEARCH_([A-Z_]*[A-Z])\b", written(TEXTS.get(name) or FILES[name]))
    assert {setting.lower() for setting in named} <= SETTINGS


@pytest.mark.parametrize("name", TEXTS)
def test_every_command_and_request_named_exists(name):
    """In text blocks and between backticks."""
    page = TEXTS[name]
    lines = [line.partition("#")[0] for block in blocks(page, "text") for line in block.text.splitlines()]
    for line in [*lines, *code_words(page)]:
        if line.startswith("bln-search "):
            check_options(line.split()[1:])
        if re.fullmatch(r"make [a-z]+.*", line):
            assert line.split()[1] in MAKE, line
        module = re.match(r"python -m (bench|papers|service)\.([\w.]+)", line)
        if module and module[2].islower():
            path = module[2].rstrip(".").replace(".", "/")
            assert (ROOT / module[1] / f"{path}.py").is_file(), line
        request = re.fullmatch(r"(GET|POST|PATCH|PUT|DELETE) (/\S*)", line)
        if request:
            check_request(request[1], request[2])


def request_of(words):
    """Method and path of a call of curl."""
    (url,) = [word for word in words if word.startswith("http")]
    if "-X" in words:
        return words[words.index("-X") + 1], re.sub(r"^\w+://[^/]+", "", url)
    return "POST" if {"-d", "--data-binary"} & set(words) else "GET", re.sub(r"^\w+://[^/]+", "", url)


def check_request(method, address):
    """Path, method and query parameters are in `openapi.json`; pages may leave the prefix out."""
    path, _, query = address.partition("?")
    for template, methods in OPENAPI_PATHS.items():
        pattern = re.sub(r"\{\w+\}", r"[^/]+", template)
        if re.fullmatch(pattern, path) or re.fullmatch(pattern, f"/api/v1{path}"):
            assert method.lower() in methods, f"{method} {address}"
            known = {one["name"] for one in methods[method.lower()].get("parameters", []) if one["in"] == "query"}
            assert {one.partition("=")[0] for one in query.split("&") if one} <= known, f"{method} {address}"
            return
    pytest.fail(f"{method} {address} is not in openapi.json")


CHECKS = {
    "bln-search": check_call,
    "curl": lambda words: check_request(*request_of(words)),
    "docker": check_docker,
    "kubectl": check_kubectl,
    "make": lambda words: MAKE & set(words[:1]) or pytest.fail(f"there is no target {words[0]}"),
    "python3": lambda words: (ROOT / words[0]).stat(),
    "ray": check_ray,
    "sbatch": lambda words: (ROOT / words[0]).stat(),
}
"""What checks the words behind the name of a program."""
