"""The studies of the papers, and whether bench/results has the results of their study files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from bench.documents.collect import result_files
from bench.support.reporting import find_study_file, read_result
from bln_search.specs import load_study
from bln_search.specs.study import StudySpec
from papers.experiments.bln import EXPERIMENTS
from papers.experiments.claims import FOLDER as CLAIMS
from papers.experiments.claims import read_paper

STUDIES = Path(__file__).parents[1] / "studies"


class ResultState(StrEnum):
    """Whether a study is in bench/results.

    Members:
        DONE: All its files are results of its study file.
        MISSING: It has no file.
        STALE: A file is the result of another study file.
        INCOMPLETE: A file is missing that older versions did not write.
    """

    DONE = "done"
    MISSING = "missing"
    STALE = "stale"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True)
class StudyResults:
    """A study file and the state of its results.

    Attributes:
        file: The study file.
        spec: The study.
        state: Whether bench/results has its results.
        reason: Which files it lacks, or how the measured study differs; empty where there is nothing to say.
        needs_gpu: Whether it is not started without a GPU.
    """

    file: Path
    spec: StudySpec
    state: ResultState
    reason: str
    needs_gpu: bool

    @property
    def name(self) -> str:
        """Name of the study."""
        return self.spec.name


def list_study_files() -> list[Path]:
    """Return the study files of the papers."""
    claimed = (
        comparison.study
        for paper in sorted(CLAIMS.glob("*.yaml"))
        for claim in read_paper(paper.stem).claims
        for comparison in claim.comparisons
    )
    of_experiments = (name for experiment in EXPERIMENTS.values() for name in experiment.studies)
    names = dict.fromkeys([*claimed, *of_experiments, *_read_lists()["further"]])
    files = [find_study_file(name.removesuffix("_curves")) for name in names]
    return sorted({*STUDIES.glob("*/*.yaml"), *(file for file in files if file is not None)})


def read_state(file: Path) -> StudyResults:
    """Compare a study file with its files in bench/results.

    Raises:
        SpecError: The study file is invalid.
    """
    spec = load_study(file)
    documents = {name: read_result(name) for name in result_files(spec.name)}
    missing = [name for name, document in documents.items() if document is None]
    differences = {
        name: different
        for name, document in documents.items()
        if document and (different := _differences(document, spec))
    }
    if len(missing) == len(documents):
        state, reason = ResultState.MISSING, ""
    elif differences:
        state = ResultState.STALE
        reason = "; ".join(f"{name} was measured with other {', '.join(keys)}" for name, keys in differences.items())
    elif missing:
        state, reason = ResultState.INCOMPLETE, f"without {', '.join(missing)}"
    else:
        state, reason = ResultState.DONE, ""
    return StudyResults(file, spec, state, reason, spec.name in _read_lists()["gpu"])


def _differences(document: Mapping[str, Any], spec: StudySpec) -> list[str]:
    """Return the sections in which a measured study differs from `spec`; titles do not count."""
    stored = document.get("spec") or document.get("result", {}).get("spec")
    try:
        measured = StudySpec.model_validate(stored)
    except ValidationError:  # a key of an older version, or no specification
        return ["keys"]
    first, second = (json.loads(study.canonical_json(exclude={"title"})) for study in (measured, spec))
    return sorted(key for key in {*first, *second} if first.get(key) != second.get(key))


@cache
def _read_lists() -> dict[str, Iterable[str]]:
    lists: dict[str, Iterable[str]] = yaml.safe_load(
        (Path(__file__).parent / "studies.yaml").read_text(encoding="utf-8")
    )
    return lists
