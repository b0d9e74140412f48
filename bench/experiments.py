"""The BLN paper's two experiments: its published tables, our studies of them, and where the comparison is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bln_search.core.errors import UnknownStudyError
from bln_search.core.states import StudyState
from bln_search.storage.ledger import Ledger
from bln_search.storage.queries import StudySummary

_DOCS = Path(__file__).parents[1] / "docs"


@dataclass(frozen=True)
class Experiment:
    """published: for each amount of training data the sixteen words, best first: one seed, ranked on test.

    figures: test loss and accuracy of the published first row, of BN and of LN, where they were given.
    studies: each with the published order it is held against; None where none was published.
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


def finished_study(ledger: Ledger, name: str) -> StudySummary | None:
    """The newest study of that name, None where there is none or it is not complete."""
    try:
        study = ledger.find_study(name)
    except UnknownStudyError:
        return None
    return study if study.state is StudyState.COMPLETE else None


EXPERIMENTS = {"cifar10": CIFAR10, "imdb": IMDB}
