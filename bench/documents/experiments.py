"""The two experiments of the BLN paper: published tables, our studies, and the page of the comparison."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bln_search.core.errors import UnknownStudyError
from bln_search.core.states import StudyState
from bln_search.specs.records import StudyRecord
from bln_search.storage.ledger import Ledger

_DOCS = Path(__file__).parents[2] / "docs"


@dataclass(frozen=True)
class Experiment:
    """An experiment.

    Attributes:
        table: Table of the paper.
        result: Name of the result file.
        page: Page of the comparison.
        published: The sixteen configurations by amount of training data, best first: one seed, ranked on test.
        figures: Test loss and accuracy of the published first row, of BN and of LN, if published.
        studies: Published order that each study is compared with; None if none was published.
    """

    table: str
    result: str
    page: Path
    published: dict[str, tuple[str, ...]]
    figures: dict[str, dict[str, tuple[float, float]]]
    studies: dict[str, str | None]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


CIFAR10 = Experiment(
    table="Table 1",
    result="published",
    page=_DOCS / "bln_cifar10.md",
    published={
        "20pct": _words("TTFF TTFT TTTT TTTF FFFT FFFF FFTT FFTF FTFT FTFF FTTT FTTF TFTF TFTT TFFT TFFF"),
        "full": _words("FTFF FTFT FTTT FTTF FFFF FFFT FFTT FFTF TTFT TTFF TTTT TTTF TFTF TFTT TFFT TFFF"),
    },
    figures={
        "20pct": {"bln": (1.5306, 0.4551), "bn": (1.5751, 0.4526), "ln": (1.6661, 0.4233)},
        "full": {"bln": (1.2562, 0.5575)},
    },
    studies={
        "bln_cifar10_20pct_b25_reference": "20pct",
        "bln_cifar10_20pct_b25": "20pct",
        "bln_cifar10_full_b25_reference": "full",
        "bln_cifar10_full_b25": "full",
    },
)
"""Table 1 of Ziaee & Çano 2022; losses and accuracies from the results published with their code."""

IMDB = Experiment(
    table="Table 2",
    result="published_imdb",
    page=_DOCS / "bln_imdb.md",
    published={
        "20pct": _words("FFTF FFFF FFTT FFFT TFFT TFTT TFFF TFTF FTTF FTFF FTTT FTFT TTFF TTTF TTFT TTTT"),
        "full": _words("FTFF FTTF FTFT FTTT FFFT FFTT FFFF FFTF TTFF TTTF TTFT TTTT TFFT TFTT TFFF TFTF"),
    },
    figures={"20pct": {"bln": (0.4963, 0.7712), "bn": (0.6203, 0.6982), "ln": (0.6386, 0.7105)}},
    studies={
        "bln_imdb_20pct_b25_reference": "20pct",
        "bln_imdb_20pct_b25_orthogonal": "20pct",
        "bln_imdb_20pct_b25_epsilon": "20pct",
        "bln_imdb_20pct_b25": "20pct",
        "bln_imdb_full_b25_reference": "full",
        "bln_imdb_full_b25": "full",
        "bln_imdb_20pct_b1_reference": None,
        "bln_imdb_20pct_b1": None,
    },
)
"""Table 2 of Ziaee & Çano 2022; losses and accuracies from the results published with their code."""


def finished_study(ledger: Ledger, name: str) -> StudyRecord | None:
    """Return the newest study with this name; None if there is none or it is not complete."""
    try:
        study = ledger.studies.get_by_name_or_id(name)
    except UnknownStudyError:
        return None
    return study if study.state is StudyState.COMPLETE else None


EXPERIMENTS = {"cifar10": CIFAR10, "imdb": IMDB}
