"""The batch scripts for Slurm: their syntax, and every command, option and setting in them."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.docs.pages import DOCS, PAGES, check_call, check_ray, shell_lines, written

FOLDER = DOCS / "slurm"
SCRIPTS = sorted(FOLDER.glob("*.sbatch"))
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


def test_every_file_is_on_the_page_and_is_a_script_without_paths_of_this_repository():
    named = set(re.findall(r"\(slurm/([\w.]+)\)", written(PAGES["slurm.md"])))
    assert named == {file.name for file in FOLDER.iterdir()}
    for file in FOLDER.iterdir():
        assert subprocess.run(["bash", "-n", file], capture_output=True, text=True).stderr == ""
        assert str(ROOT) not in written(file)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_directives_precede_commands_that_could_be_given(script):
    before, _, after = written(script).partition("set -euo pipefail")
    named = re.findall(r"^#SBATCH --([\w-]+)=\S+$", before, re.MULTILINE)
    assert len(named) == before.count("\n#SBATCH ")
    assert "#SBATCH" not in after
    assert {"job-name", "time", "cpus-per-task"} <= set(named) <= DIRECTIVES
    assert "source /srv/bln-search/settings.sh\n" in after
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


def test_a_job_stops_before_its_time_limit():
    """Workers and runs get SIGTERM as steps of the job; the driver of Ray is no step."""
    signalled = {script.name for script in SCRIPTS if "#SBATCH --signal=TERM@120" in written(script)}
    assert signalled == {"run.sbatch", "workers.sbatch"}
    lines = [line for name in signalled for line in written(FOLDER / name).splitlines() if " bln-search " in line]
    assert all(line.startswith("srun ") for line in lines if line[0] != "#")


STUBS = {
    "srun": '#!/bin/bash\nwhile [[ $1 == --* ]]; do shift; done\nexec "$@"\n',
    "bln-search": f"#!/bin/bash\nexec {sys.executable} -c 'from bln_search.cli.main import main; main()' \"$@\"\n",
    "settings.sh": "",
}
STUDY = """
name: small
data: {name: digits, fraction: 0.2}
model: {name: mlp, widths: [8]}
arms: [{method: bn}]
seeds: [0]
training: {epochs: 1}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments", "says"), [("run.sbatch", ["small.yaml"], "1/1 trials done"), ("workers.sbatch", [], "")]
)
def test_a_job_runs_a_study_or_workers_until_the_queue_is_empty(name, arguments, says, tmp_path):
    """Without Slurm: `srun` only executes its command, and the settings are those of the test."""
    for program, text in STUBS.items():
        (tmp_path / program).write_text(text)
        (tmp_path / program).chmod(0o755)
    (tmp_path / "small.yaml").write_text(STUDY)
    script = written(FOLDER / name).replace("/srv/bln-search/settings.sh", str(tmp_path / "settings.sh"))
    variables = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    job = subprocess.run(
        ["bash", "-c", script, name, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=tmp_path,
        env={**os.environ, **variables, "SLURM_CPUS_PER_TASK": "1"},
    )
    assert job.returncode == 0, job.stderr
    assert says in job.stderr
