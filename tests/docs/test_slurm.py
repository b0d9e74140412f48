"""The batch scripts for Slurm: their syntax, and every command, option and setting in them."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.docs.pages import DOCS, PAGES, check_call, check_ray, shell_lines, written

SCRIPTS = sorted((DOCS / "slurm").glob("*.sbatch"))
DIRECTIVES = {"cpus-per-task", "job-name", "mem", "mem-per-cpu", "nodes", "ntasks", "ntasks-per-node", "signal", "time"}
VARIABLES = {"$SLURM_CPUS_PER_TASK": "8", "$cores": "8", "$head": "node1", "$1": "study.yaml"}
SRUN = {"cpus-per-task", "exclude", "nodelist", "nodes", "ntasks", "overlap"}


def commands(script):
    """The commands of a script, with values in place of variables; options of srun are checked and left out."""
    text = re.sub(r"\$\(\(.*?\)\)", "3", written(script).replace(" &\n", "\n"))
    for name, value in VARIABLES.items():
        text = text.replace(name, value)
    for words in shell_lines(text):
        if words[0] != "srun":
            yield words
            continue
        options = words[1 : words.index("bln-search" if "bln-search" in words else "ray")]
        assert {option.removeprefix("--").partition("=")[0] for option in options} <= SRUN, words
        yield words[1 + len(options) :]


def test_every_script_is_on_the_page():
    named = set(re.findall(r"\(slurm/([\w.]+)\)", written(PAGES["slurm.md"])))
    assert named == {file.name for file in (DOCS / "slurm").iterdir()}


@pytest.mark.parametrize("file", sorted((DOCS / "slurm").iterdir()), ids=lambda file: file.name)
def test_the_syntax_is_that_of_bash(file):
    assert subprocess.run(["bash", "-n", file], capture_output=True, text=True).stderr == ""


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
class TestScript:
    def test_directives_precede_commands_and_are_known(self, script):
        before, _, after = written(script).partition("set -euo pipefail")
        named = re.findall(r"^#SBATCH --([\w-]+)=\S+$", before, re.MULTILINE)
        assert len(named) == before.count("\n#SBATCH ")
        assert "#SBATCH" not in after
        assert {"job-name", "time", "cpus-per-task"} <= set(named) <= DIRECTIVES

    def test_commands_could_be_given(self, script):
        called = set()
        for program, *words in commands(script):
            if program == "bln-search":
                check_call(words)
            elif program == "ray" and words[0] == "start":
                check_ray(words)
            else:
                assert program in {"set", "source", "export", "until", "ray"} or "=" in program, program
            called.add(program)
        assert "bln-search" in called

    def test_the_settings_are_those_of_the_page(self, script):
        assert "source /srv/bln-search/settings.sh\n" in written(script)


def test_a_job_stops_before_its_time_limit():
    """Workers and runs get SIGTERM as steps of the job; the driver of Ray is no step."""
    signalled = {script.name for script in SCRIPTS if "#SBATCH --signal=TERM@120" in written(script)}
    assert signalled == {"run.sbatch", "workers.sbatch"}
    for name in signalled:
        (line,) = [
            line for line in written(DOCS / "slurm" / name).splitlines() if " bln-search " in line and line[0] != "#"
        ]
        assert line.startswith("srun ")


SRUN_STUB = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
exec "$@"
"""
COMMAND_STUB = f"""#!/bin/bash
exec {sys.executable} -c 'from bln_search.cli.main import main; main()' "$@"
"""


def run_job(name, arguments, folder):
    """A batch script without Slurm: `srun` only executes its command, and the settings are those of the test."""
    for program, text in (("srun", SRUN_STUB), ("bln-search", COMMAND_STUB)):
        (folder / program).write_text(text)
        (folder / program).chmod(0o755)
    (folder / "settings.sh").touch()
    script = written(DOCS / "slurm" / name).replace("/srv/bln-search/settings.sh", str(folder / "settings.sh"))
    return subprocess.run(
        ["bash", "-c", script, name, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "SLURM_CPUS_PER_TASK": "1",
        },
    )


def test_a_job_runs_a_study(tmp_path):
    (tmp_path / "small.yaml").write_text(
        "name: small\ndata: {name: digits, fraction: 0.2}\nmodel: {name: mlp, widths: [8]}\n"
        "arms: [{method: bn}]\nseeds: [0]\ntraining: {epochs: 1}\n"
    )
    job = run_job("run.sbatch", ["small.yaml"], tmp_path)
    assert job.returncode == 0, job.stderr
    assert "1/1 trials done" in job.stderr


def test_a_job_with_workers_ends_when_the_queue_is_empty(tmp_path):
    job = run_job("workers.sbatch", [], tmp_path)
    assert job.returncode == 0, job.stderr


def test_no_path_is_of_this_repository():
    assert not [file for file in (DOCS / "slurm").iterdir() if str(ROOT) in written(file)]
