"""Claims of Ziaee & Çano 2022, *Batch Layer Normalization*, with the differences that test them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from bench.documents.experiments import CIFAR10, IMDB, Experiment
from bench.documents.papers.marks import Claim, Comparison, Expected, Mark, interval_text
from bench.documents.papers.seed_values import StudyLosses, differences, epoch_values
from bench.support.reporting import read_result

CIFAR10_PAGE = "[CIFAR-10](bln_cifar10.md)"
IMDB_PAGE = "[IMDB](bln_imdb.md)"
SIZES = {"20pct": "20 %", "full": "all"}
READINGS = {"_reference": ("reference", ("epoch", "frozen")), "": ("paper", ("frozen",))}
"""Suffix of a study's name: reading of the formulas, and its population estimates."""

_DATA = {"cifar10": CIFAR10, "imdb": IMDB}


@cache
def losses_of(study: str) -> StudyLosses:
    """Return the losses of a study."""
    return StudyLosses(study)


def _conditions(data: str, sizes: Sequence[str]) -> list[tuple[StudyLosses, str, str, str]]:
    """Return for each size, reading and estimate: the study, its size, the estimate, and how the page names them."""
    return [
        (losses_of(f"bln_{data}_{size}_b25{suffix}"), size, estimate, f"{SIZES[size]}, {reading}, {estimate}")
        for size in sizes
        for suffix, (reading, estimates) in READINGS.items()
        for estimate in estimates
    ]


def effects(data: str, switch: str, expected: Expected, sizes: Sequence[str] = tuple(SIZES)) -> tuple[Comparison, ...]:
    """Return the effect of a switch (test loss under T less that under F) in every condition."""
    return tuple(
        Comparison(study.name, f"{switch}, T less F: {label}", study.effect(switch, estimate), expected)
        for study, _, estimate, label in _conditions(data, sizes)
    )


def orders(data: str) -> tuple[Comparison, ...]:
    """Return Kendall's τ with the published order in every condition."""
    published = _DATA[data].published
    return tuple(
        Comparison(
            study.name,
            f"τ with the order: {label}",
            study.rank_correlation(published[size], estimate),
            Expected.POSITIVE,
        )
        for study, size, estimate, label in _conditions(data, tuple(SIZES))
    )


def best_row_against(data: str, other: str) -> tuple[Comparison, ...]:
    """Return the test loss of BLN's best row on validation, by estimate, less that of BN or LN as usually run."""
    return tuple(
        Comparison(
            study.name,
            f"bln less {other}: {label}",
            differences(study.of_best_row("bln", (estimate, None)), study.usual(other)),
        )
        for study, _, estimate, label in _conditions(data, tuple(SIZES))
    )


def small_batch_against(data: str, other: str) -> tuple[Comparison, ...]:
    """Return the same for mini-batches of one, with the best row of any estimate."""
    studies = [(losses_of(f"bln_{data}_20pct_b1{suffix}"), READINGS[suffix][0]) for suffix in ("_reference", "")]
    return tuple(
        Comparison(
            study.name,
            f"bln less {other}: 20 %, {reading}, m = 1",
            differences(study.of_best_row("bln", ("epoch", "frozen", None)), study.usual(other)),
        )
        for study, reading in studies
    )


def usual_pair(data: str, first: str, second: str) -> tuple[Comparison, ...]:
    """Return the test loss of BN or LN as usually run less that of the other."""
    return tuple(
        Comparison(study.name, f"{first} less {second}: {SIZES[size]}, {reading}", differences(*pair))
        for size in SIZES
        for suffix, (reading, _) in READINGS.items()
        for study in [losses_of(f"bln_{data}_{size}_b25{suffix}")]
        for pair in [(study.usual(first), study.usual(second))]
    )


def training_against(
    study: str, measure: str, epoch: int, expected: Expected = Expected.NEGATIVE
) -> tuple[Comparison, ...]:
    """Return a measure of BLN's training less that of BN and LN, after an epoch (-1 is the last one)."""
    when = "last epoch" if epoch == -1 else f"epoch {epoch}"
    return tuple(
        Comparison(
            f"{study}_curves",
            f"{measure.replace('_', ' ')}, {when}, bln less {other}: `{study}`",
            differences(epoch_values(study, "bln", measure, epoch), epoch_values(study, other, measure, epoch)),
            expected,
        )
        for other in ("bn", "ln")
    )


def training_on_imdb(size: str, epoch: int) -> tuple[Comparison, ...]:
    """Return the same for the error on IMDB in both readings."""
    studies = (f"bln_imdb_20pct_{size}_reference", f"bln_imdb_20pct_{size}")
    return tuple(comparison for study in studies for comparison in training_against(study, "training_error", epoch))


def fine_tuning() -> tuple[Comparison, Comparison]:
    """Return the change of the validation loss by fine-tuning under the row, and the same less that of the control."""
    saved = read_result("fine_tuning")
    runs = {} if saved is None else saved["result"]["runs"]
    changes: dict[str, dict[int, float]] = {}
    for name, records in runs.items():
        kind = name.split(" | ")[1] if name.startswith("bln") else ""
        changes[kind] = {run["seed"]: run["loss after"] - run["loss before"] for run in records}
    tuned, control = (changes.get(kind) for kind in ("its row", "control: mini-batch as before"))
    zero = None if tuned is None else dict.fromkeys(tuned, 0.0)
    return (
        Comparison("fine_tuning", "after less before, under the row", differences(tuned, zero)),
        Comparison("fine_tuning", "change under the row less that of the control", differences(tuned, control)),
    )


def claims() -> tuple[Claim, ...]:
    """Return the claims of the paper in its order."""
    worse, better, better_if_higher = Expected.POSITIVE, Expected.NEGATIVE, Expected.POSITIVE
    change, against_control = fine_tuning()
    return (
        Claim(
            "Eq. 16, Fig. 2",
            "The weights go from ε to 1 − ε with the size of the mini-batch",
            "[errors](#errors-of-the-paper)",
            shown=Mark.FAILS,
        ),
        *(
            claim
            for m, study in ((25, "bln_cifar10_20pct_b25"), (1, "bln_cifar10_20pct_b1"))
            for claim in (
                Claim(
                    "§4.1, Fig. 4a",
                    f"BLN trains faster than BN and LN on CIFAR-10, m = {m} (training loss after the first epoch)",
                    CIFAR10_PAGE,
                    training_against(study, "training_loss", 1),
                ),
                Claim(
                    "§4.1, Fig. 4b",
                    f"BLN has the highest training accuracy after the last epoch on CIFAR-10, m = {m}",
                    CIFAR10_PAGE,
                    training_against(study, "training_accuracy", -1, better_if_higher),
                ),
            )
        ),
        Claim(
            "§4.1, §6",
            "BLN is better than BN and LN on CIFAR-10, m = 25",
            CIFAR10_PAGE,
            best_row_against("cifar10", "bn") + best_row_against("cifar10", "ln"),
        ),
        Claim(
            "§4.1",
            "BLN is better than BN and LN on CIFAR-10, m = 1",
            "[CIFAR-10](bln_cifar10.md)",
            small_batch_against("cifar10", "bn") + small_batch_against("cifar10", "ln"),
        ),
        Claim("§4.1", "BN is better than LN on CIFAR-10, m = 25", CIFAR10_PAGE, usual_pair("cifar10", "bn", "ln")),
        Claim("§4.1, Table 1", "The order of the sixteen rows on CIFAR-10", CIFAR10_PAGE, orders("cifar10")),
        Claim(
            "§4.1, §5 (1)",
            "The population mean of the mini-batch (E_B = T) is better where data is scarce (20 %)",
            CIFAR10_PAGE,
            effects("cifar10", "E_B", better, ("20pct",)),
        ),
        Claim(
            "§4.1, §5 (1)",
            "The current mean (E_B = F) is better with all data",
            CIFAR10_PAGE,
            effects("cifar10", "E_B", worse, ("full",)),
        ),
        Claim("§5 (1)", "E_F = T is worse on CIFAR-10", CIFAR10_PAGE, effects("cifar10", "E_F", worse)),
        Claim("§5 (1), (3)", "Std_F = T is worse on CIFAR-10", CIFAR10_PAGE, effects("cifar10", "Std_F", worse)),
        *(
            claim
            for m, size in ((25, "b25"), (1, "b1"))
            for claim in (
                Claim(
                    "§4.2, Fig. 6a",
                    f"BLN trains faster than BN and LN on IMDB, m = {m} (training error after the first epoch)",
                    IMDB_PAGE,
                    training_on_imdb(size, 1),
                ),
                Claim(
                    "§4.2, Fig. 6b",
                    f"BLN has the lowest training error after the last epoch on IMDB, m = {m}",
                    IMDB_PAGE,
                    training_on_imdb(size, -1),
                ),
            )
        ),
        Claim(
            "§4.2, §6",
            "BLN is better than BN and LN on IMDB, m = 25",
            IMDB_PAGE,
            best_row_against("imdb", "bn") + best_row_against("imdb", "ln"),
        ),
        Claim(
            "§4.2",
            "BLN is better than BN and LN on IMDB, m = 1",
            IMDB_PAGE,
            small_batch_against("imdb", "bn") + small_batch_against("imdb", "ln"),
        ),
        Claim("§4.2", "LN is better than BN on IMDB", IMDB_PAGE, usual_pair("imdb", "ln", "bn")),
        Claim("§4.2, Table 2", "The order of the sixteen rows on IMDB", IMDB_PAGE, orders("imdb")),
        Claim("§4.2, §5 (2)", "E_B = T is worse on IMDB", IMDB_PAGE, effects("imdb", "E_B", worse)),
        Claim("§5 (2)", "E_F = T is worse on IMDB", IMDB_PAGE, effects("imdb", "E_F", worse)),
        Claim("§5 (2), (3)", "Std_F = T is worse on IMDB", IMDB_PAGE, effects("imdb", "Std_F", worse)),
        Claim(
            "Alg. 2, step 13",
            "Further training under the best configuration lowers its loss",
            "[fine-tuning](without_normalization.md)",
            (change,),
        ),
        Claim(
            "Alg. 2, step 13",
            "It lowers the loss more than further training as before",
            "[fine-tuning](without_normalization.md)",
            (against_control,),
        ),
        Claim("§3, Eq. 27", "A norm after the nonlinearity is better than before it", "no study"),
    )


def published_lines() -> list[str]:
    """Return the table of the published test results beside the measured ones."""
    lines = [
        "| data | training set | row | published loss, accuracy % | measured loss | measured accuracy % |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for data, experiment in _DATA.items():
        lines += _published_rows(data, experiment)
    return lines


def _published_rows(data: str, experiment: Experiment) -> list[str]:
    lines = []
    for size, figures in experiment.figures.items():
        study = losses_of(f"bln_{data}_{size}_b25_reference")
        for arm, (loss, accuracy) in figures.items():
            row = f"best row (published: `{experiment.published[size][0]}`)" if arm == "bln" else "usual row"
            values = [
                study.of_best_row("bln", ("epoch", None), index) if arm == "bln" else study.usual(arm, index)
                for index in (0, 1)
            ]
            cells = [
                "not measured"
                if value is None
                else interval_text([scale * number for number in value.values()], digits)
                for value, scale, digits in zip(values, (1, 100), (4, 2), strict=True)
            ]
            lines.append(
                f"| {data} | {SIZES[size]} | {arm}, {row} | {loss:.4f}, {100 * accuracy:.2f} | {' | '.join(cells)} |"
            )
    return lines
