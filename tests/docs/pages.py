"""The pages, taken apart: blocks of code, links, names of commands and paths."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass

import yaml
from typer.main import get_command

from bench.documents.reference.pages import render
from bln_search.cli.main import app
from tests.conftest import ROOT

DOCS = ROOT / "docs"
PAGES = {page.name: page for page in sorted(DOCS.glob("*.md"))}
README = ROOT / "README.md"
OPENAPI_PATHS = json.loads((ROOT / "openapi.json").read_text(encoding="utf-8"))["paths"]
TEXTS = {**PAGES, README.name: README}
COMMAND = get_command(app).load_all()


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, what stands behind the language, its text and the line it starts at."""

    language: str
    info: str
    text: str
    line: int

    @property
    def title(self):
        """The name of the file that it is, where it says so."""
        found = re.search(r'title="([^"]+)"', self.info)
        return found[1] if found else None


def written(page):
    """The text of a page."""
    return page.read_text(encoding="utf-8")


def blocks(page, language=None):
    """The fenced blocks of a page, or those of one language."""
    text = written(page)
    found = [
        Block(match[1], match[2].strip(), match[3], text[: match.start()].count("\n") + 1)
        for match in re.finditer(r"^```(\w*)([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]
    return [block for block in found if language in (None, block.language)]


def prose(page):
    """The page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", written(page), flags=re.MULTILINE | re.DOTALL)


def code_words(page):
    """What stands in backticks in the prose; a line may break inside."""
    return [" ".join(found.split()) for found in re.findall(r"`([^`]+)`", prose(page))]


def slug(heading):
    """The anchor of a heading."""
    kept = re.sub(r"[^\w\s-]", "", heading.encode("ascii", "ignore").decode()).strip().lower()
    return re.sub(r"[-\s]+", "-", kept)


def anchors(page):
    """The anchors of a page with its generated parts."""
    text = re.sub(r"^```.*?^```$", "", render(page.name, written(page)), flags=re.MULTILINE | re.DOTALL)
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def shell_lines(text):
    """The commands of a shell block: continued lines joined, comments and the inside of here-documents left out."""
    lines, end = [], None
    for line in text.replace("\\\n", " ").splitlines():
        if end is not None:
            end = None if line.strip() == end else end
            continue
        here = re.search(r"<<'(\w+)'", line)
        end = here[1] if here else None
        words = shlex.split(line, comments=True)
        if words:
            lines.append(words)
    return lines


def verbs(command=COMMAND, name=""):
    """Every verb by its name, those of groups by both words; hidden ones are left out."""
    if not hasattr(command, "commands"):
        return {name: command}
    return {
        full: verb
        for word, inner in command.commands.items()
        if not inner.hidden
        for full, verb in verbs(inner, f"{name} {word}".strip()).items()
    }


def find_verb(words):
    """The verb that the words behind `bln-search` name, and the words behind the verb."""
    verb, rest = COMMAND, list(words)
    while rest and hasattr(verb, "commands") and not rest[0].startswith("-"):
        assert rest[0] in verb.commands, f"bln-search {' '.join(words)}: there is no {rest[0]!r}"
        verb = verb.commands[rest.pop(0)]
    return verb, rest


def check_options(words):
    """Verb and options of a synopsis exist; brackets, alternatives and what is left out are not looked at."""
    plain = [word.strip("[],;") for word in words]
    verb, rest = find_verb(plain)
    known = {name for parameter in verb.params for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}
    for word in rest:
        if word.startswith("--"):
            assert word.partition("=")[0] in known, f"bln-search {' '.join(words)}: there is no option {word}"


def check_call(words):
    """A call that could be made as it stands: verb, options, their values and arguments are taken.

    A documented data folder is replaced by one that exists here; a redirection is left out.
    """
    words = words[: words.index(">")] if ">" in words else words
    words = [str(ROOT) if before == "--data" else word for before, word in zip(["", *words], words, strict=False)]
    verb, rest = find_verb(words)
    if rest != ["--version"]:
        verb.make_context(verb.name, rest)


def check_docker(words):
    """Stages, services and images that a docker command names exist, and so does the command of bln-search in it."""
    if words[0] == "build":
        dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
        assert words[-1] == ".", words
        assert f" AS {words[words.index('--target') + 1]}\n" in dockerfile, words
        return
    files = [ROOT / "docker-compose.yml", *ROOT.glob("compose.*.yml")]
    services = {name for file in files for name in yaml.safe_load(file.read_text(encoding="utf-8"))["services"]}
    verb, *rest = words[1:] if words[0] == "compose" else words
    named = [at for at, word in enumerate(rest) if word in services or re.fullmatch(r"bln-search-\w+:local", word)]
    if verb in ("exec", "run"):
        command = rest[named[0] + 1 :]
        if verb == "run" or command[0] == "bln-search":  # the entry point of the images is bln-search
            check_call(command if verb == "run" else command[1:])
    else:
        assert verb in ("up", "down", "logs", "stop", "push"), words
        assert verb == "push" or len(named) == len([word for word in rest if word[0] != "-"]), words


def kubernetes_objects():
    """Every object of the manifests, by kind and name."""
    files = sorted((DOCS / "kubernetes").glob("*.yaml"))
    documents = [document for file in files for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))]
    return {(document["kind"], document["metadata"]["name"]): document for document in documents}


def check_kubectl(words):
    """Files and objects that a call of `kubectl` names are there, and so is the command that it executes."""
    verb, *rest = words
    names = {f"{kind.lower()}/{name}" for kind, name in kubernetes_objects()}
    if verb == "apply":
        assert (ROOT / rest[rest.index("--filename") + 1]).is_file(), words
    elif verb == "create":
        assert rest[:2] == ["secret", "generic"], words
    else:
        assert verb in {"exec", "logs", "port-forward", "rollout", "scale"}, words
        assert names.intersection(rest), words
    if "bln-search" in rest:
        check_call(rest[rest.index("bln-search") + 1 :])


def never_ends(words):
    """Does the command run until it is stopped?"""
    program, *rest = words
    if program == "bln-search":
        return rest[0] == "serve" or (rest[0] == "worker" and "--once" not in rest)
    if program == "docker":
        return "--follow" in rest or ("up" in rest and "--detach" not in rest)
    return program == "kubectl" and (rest[0] == "port-forward" or "--follow" in rest)


def check_ray(words):
    """A call of `ray` that could be made as it stands; a node is told its memory, a head has no dashboard."""
    from ray.scripts.scripts import cli

    verb = cli.commands[words[0]]
    taken = verb.make_context(verb.name, list(words[1:])).params
    assert taken["object_store_memory"] or verb.name != "start", words
    assert not (taken.get("head") and taken["include_dashboard"] is not False), words


def run_python(code, *, where, **environment):
    """Run code in a process of its own in the folder `where`, warnings being errors; what it prints."""
    inherited = {name: value for name, value in os.environ.items() if name != "COLUMNS"}  # of the test runner
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=where,
        env={**inherited, "PYTHONPATH": os.pathsep.join([str(ROOT), str(where)]), **environment},
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


_CALLS = """
import sys
import warnings
warnings.simplefilter("default")
from bln_search.cli.main import app
for call in {calls!r}:
    try:
        app(call)
    except SystemExit as end:
        if end.code:
            sys.exit(f"bln-search {{' '.join(call)}} ended with {{end.code}}")
"""


def run_calls(calls, *, where, **environment):
    """Calls of `bln-search` one after the other in one process, which loads torch once; what they print."""
    return run_python(_CALLS.format(calls=calls), where=where, COLUMNS="200", **environment)
