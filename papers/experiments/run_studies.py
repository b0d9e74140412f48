"""Runs studies of the papers whose results bench/results lacks: `python -m papers.experiments.run_studies --hours 8`.

`--list` prints every study with the state of its results and the estimated minutes of what is left, and runs nothing.

Studies without results, and those whose file has changed since, come before those that lack only a file that older
versions did not write; of each kind the cheapest comes first. A study starts if its estimate fits into the time that
is left. At the limit the running one is interrupted as by Ctrl-C, and the next call resumes it from the database.
Finished studies are written into bench/results, and at the end the pages that show them are. A study that fails does
not stop the others; the status is then 1.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import torch

from bench.documents.blocks import blocks
from bench.documents.collect import collect_documents
from bench.support.reporting import find_study_file, write_document
from bln_search.cli.exit_codes import ExitCode
from bln_search.core.errors import BlnSearchError
from bln_search.core.states import StudyState, TrialState
from bln_search.core.stop_signals import interrupt_on_stop_signals
from bln_search.settings import load_settings
from bln_search.specs.records import StudyRecord
from bln_search.specs.study import StudySpec
from bln_search.storage.ledger import Ledger, open_and_upgrade_ledger
from papers.experiments.study_results import ResultState, StudyResults, list_study_files, read_state

_ESTIMATED_SECONDS_PER_ARM = 1.0


@dataclass(frozen=True)
class PlannedRun:
    """A study and what its run would cost.

    Attributes:
        study: The study.
        seconds: Estimated time of the trials that are left; None where nothing is run.
        problem: Why it cannot be run; empty where it can, and where nothing is left to do.
    """

    study: StudyResults
    seconds: float | None = None
    problem: str = ""

    @property
    def order(self) -> tuple[bool, bool, float]:
        """The cheapest first, incomplete results last."""
        return self.seconds is None, self.study.state is ResultState.INCOMPLETE, self.seconds or 0.0

    def __str__(self) -> str:
        """Its line of the list."""
        minutes = "-" if self.seconds is None else f"{self.seconds / 60:.0f}"
        remarks = (self.study.reason, "needs a GPU" if self.study.needs_gpu else "", self.problem)
        return f"{self.study.state:<10} {minutes:>6}  {self.study.name}  {'; '.join(filter(None, remarks))}".rstrip()


@dataclass
class StudyRuns:
    """Runs studies one after another, within a time.

    Attributes:
        seconds: Length of the time.
        options: Options of `bln-search run` that `validate --estimate-time` has too.
        outcomes: How each study ended.
    """

    seconds: float
    options: Sequence[str] = ()
    outcomes: dict[str, str] = field(default_factory=dict)
    _start: float = field(default_factory=time.monotonic)

    @property
    def seconds_left(self) -> float:
        """Time that is left."""
        return self.seconds - (time.monotonic() - self._start)

    def run(self, planned: PlannedRun) -> None:
        """Run a study, or resume it, and write its results; not if its estimated time does not fit."""
        study, seconds = planned.study, planned.seconds
        if seconds is None:
            if planned.problem:
                self._end(study, f"failed: {planned.problem}")
            return
        if is_complete(study.spec):
            self._end(study, write_results(study.spec))
            return
        if seconds > self.seconds_left:
            left = max(0.0, self.seconds_left)
            self._end(study, f"not started: about {seconds / 60:.0f} minutes, {left / 60:.0f} are left")
            return
        print(f"{study.name}: about {seconds / 60:.0f} minutes", flush=True)
        self._end(
            study,
            self._run_command([*_bln_search("run", study, self.options), "--format", "json", "--quiet"], study.spec),
        )

    def _run_command(self, command: Sequence[str], spec: StudySpec) -> str:
        """Run a study until it ends or the time is over; returns how it ended."""
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,  # signals of the terminal reach this process alone, which passes one on
        ) as process:
            try:
                _, said = process.communicate(timeout=max(0.0, self.seconds_left))
            except subprocess.TimeoutExpired:
                process.terminate()  # ends it as Ctrl-C does, which a process in the background ignores
                process.communicate()
                if process.returncode != ExitCode.DONE:
                    return "interrupted at the limit; the next call resumes it"
                said = ""
            except KeyboardInterrupt:
                process.terminate()
                process.communicate()
                raise
        if process.returncode != ExitCode.DONE:
            return f"failed with status {process.returncode}: {said.strip()[-500:]}"
        return write_results(spec)

    @property
    def failed(self) -> list[str]:
        """The studies that failed."""
        return [name for name, outcome in self.outcomes.items() if outcome.startswith("failed")]

    @property
    def collected(self) -> list[str]:
        """The studies with new results."""
        return [name for name, outcome in self.outcomes.items() if outcome.startswith("written")]

    def _end(self, study: StudyResults, outcome: str) -> None:
        self.outcomes[study.name] = outcome
        print(f"{study.name}: {outcome}", flush=True)


def write_results(spec: StudySpec) -> str:
    """Write the files of a study into bench/results; return which, or why it failed."""
    with closing(_open_ledger()) as ledger:
        study = _find_study(ledger, spec)
        if study is None or study.state is not StudyState.COMPLETE:
            return f"failed: the study is {study.state if study else 'not stored'}"
        try:
            documents = dict(collect_documents(ledger, study))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it does not stop the other studies
            return f"failed: its results cannot be read: {type(error).__name__}: {error}"
    for name, document in documents.items():
        write_document(name, document)
    return f"written: {', '.join(f'{name}.json' for name in documents)}"


def is_complete(spec: StudySpec) -> bool:
    """Whether the database has a study with all its results."""
    with closing(_open_ledger()) as ledger:
        study = _find_study(ledger, spec)
    return study is not None and study.state is StudyState.COMPLETE


def estimate_seconds(study: StudyResults, options: Sequence[str] = ()) -> float:
    """Return the estimated time of the trials that are left, in seconds.

    Raises:
        BlnSearchError: The study cannot be estimated.
    """
    with closing(_open_ledger()) as ledger:
        record = _find_study(ledger, study.spec)
    if record is not None and record.state is StudyState.COMPLETE:
        return 0.0
    measured = ("--estimate-time", "--seconds-per-arm", str(_ESTIMATED_SECONDS_PER_ARM), "--format", "json")
    command = [*_bln_search("validate", study, options), *measured]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BlnSearchError(done.stderr.strip()[-500:])
    seconds: float = json.loads(done.stdout)["seconds_of_study"]
    if record is None:
        return seconds
    return seconds * (1 - record.trials.get(TrialState.FINISHED, 0) / record.planned)


def write_pages() -> None:
    """Write the generated blocks of all pages again."""
    for block in blocks():
        block.write()


def plan_runs(studies: Iterable[StudyResults], options: Sequence[str]) -> list[PlannedRun]:
    """Return the runs of studies in their order. Studies that are done, or need a GPU that is missing, are not run."""
    runs = []
    for study in studies:
        if study.state is ResultState.DONE or (study.needs_gpu and not torch.cuda.is_available()):
            runs.append(PlannedRun(study))
            continue
        try:
            runs.append(PlannedRun(study, estimate_seconds(study, options)))
        except BlnSearchError as error:
            runs.append(PlannedRun(study, problem=str(error)))
    return sorted(runs, key=lambda run: run.order)


def run_planned(runs: StudyRuns, planned: Iterable[PlannedRun]) -> int:
    """Run studies, write the pages of those with new results, and return the status."""
    try:
        with interrupt_on_stop_signals():
            for run in planned:
                runs.run(run)
    except KeyboardInterrupt:
        print("interrupted; finished trials are kept, and the next call resumes")
        return ExitCode.INTERRUPTED
    finally:
        if runs.collected:
            write_pages()
    if runs.failed:
        print(f"failed: {', '.join(runs.failed)}")
    return ExitCode.FAILED if runs.failed else ExitCode.DONE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run or list studies; returns the status."""
    options = _parse(arguments)
    named = ((f"--{name}", getattr(options, name)) for name in ("data", "device", "workers"))
    run_options = [text for name, value in named if value is not None for text in (name, str(value))]
    runs = StudyRuns(options.hours * 3600, run_options)
    files = [_find_file(name) for name in options.studies] or list_study_files()
    planned = plan_runs(map(read_state, files), run_options)
    counts = Counter(run.study.state for run in planned)
    print(
        *planned, ", ".join(f"{counts[state]} {state}" for state in ResultState if counts[state]), sep="\n", flush=True
    )
    return ExitCode.DONE if options.list else run_planned(runs, planned)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="*", help="names or files of studies; all of the papers by default")
    parser.add_argument("--hours", type=float, default=8.0, help="time in which studies run; 8 by default")
    parser.add_argument("--list", action="store_true", help="print the studies and run nothing")
    parser.add_argument("--data", help="folder of data sets")
    parser.add_argument("--device", help="device of `bln-search run`")
    parser.add_argument("--workers", type=int, help="number of parallel trials")
    return parser.parse_args(arguments)


def _find_file(name: str) -> Path:
    file = Path(name) if name.endswith(".yaml") else find_study_file(name)
    if file is None or not file.is_file():
        raise SystemExit(f"there is no study {name}: give a file, or a name in studies or papers/studies")
    return file


def _bln_search(verb: str, study: StudyResults, options: Sequence[str]) -> list[str]:
    device = ["--device", "cuda"] if study.needs_gpu and "--device" not in options else []
    return [sys.executable, "-m", "bln_search", verb, str(study.file), *options, *device]


def _open_ledger() -> Ledger:
    return open_and_upgrade_ledger(load_settings().checked_database_url(None))


def _find_study(ledger: Ledger, spec: StudySpec) -> StudyRecord | None:
    """Return the stored study of this content; None if there is none."""
    same = (study for study in ledger.studies.list_studies() if (study.name, study.owner) == (spec.name, ""))
    return next((study for study in same if study.spec.digest == spec.digest), None)


if __name__ == "__main__":
    sys.exit(main())
