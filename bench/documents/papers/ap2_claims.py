"""Claims of Shekhovtsov & Flach 2018 (AP2), with the differences that test them.

Differences and margins were fixed before the twelve cells were trained, those of weight decay during its study, and the
claim about costs after its figures.
"""

from __future__ import annotations

from math import log

from bench.documents.ap2.cells import BATCH_MODE, DATA, NAMES, STARTS, Cell
from bench.documents.ap2.decay import ARMS as DECAY_ARMS
from bench.documents.ap2.decay import OPTIMIZERS, last_loss, last_norm, read_run, training_rise
from bench.documents.ap2.decay import STUDY as DECAY_STUDY
from bench.documents.papers.marks import Claim, Comparison, Expected, Mark
from bench.documents.papers.seed_values import Values, differences
from bench.support.reporting import read_result

TABLES = "[tables](#tables)"
LOSS_MARGIN = 0.05 * log(10)
"""Losses are close within this share of the loss of chance, that of the LN paper's claims."""

ACCURACY_MARGIN = 0.005
"""Accuracies are on par within half a point, the margin of MNIST in the LN paper's claims."""

DECAY_MARGIN = 0.02
"""Weight decay achieves nothing within this difference of the validation loss, in nats."""

LARGE_RATIO, NO_RATIO = 0.5, 0.0
"""log₁₀ of a ratio of learning rates: from the first on it is about ten times; up to the second it is not larger."""

CIFAR10 = ("noisy_cifar10_small", "noisy_cifar10")


def arms_differ(
    data: str, start: str, pair: tuple[str, str], expected: Expected = Expected.NEGATIVE, margin: float | None = None
) -> Comparison:
    """Return the training loss in the last epoch of an arm less that of another, after one start."""
    first, second = (Cell(data, start, arm) for arm in pair)
    values = differences(first.at_last_epoch("training_loss"), second.at_last_epoch("training_loss"))
    setting = f"training loss, {NAMES[pair[0]]} less {NAMES[pair[1]]}: {DATA[data]}, start {NAMES[start]}"
    return Comparison(first.study, setting, values, expected, margin)


def starts_differ(
    data: str, arm: str, pair: tuple[str, str], expected: Expected = Expected.NEGATIVE, margin: float | None = None
) -> Comparison:
    """Return the training loss in the last epoch of an arm after one start less that after another."""
    first, second = (Cell(data, start, arm) for start in pair)
    values = differences(first.at_last_epoch("training_loss"), second.at_last_epoch("training_loss"))
    setting = f"training loss of {NAMES[arm]}, start {NAMES[pair[0]]} less {NAMES[pair[1]]}: {DATA[data]}"
    return Comparison(first.study, setting, values, expected, margin)


def rises_differ(data: str, start: str) -> Comparison:
    """Return the mean rise of BN's validation loss in evaluation mode after a start less that after start BN."""
    first, second = (Cell(data, name, "bn") for name in (start, "bn"))
    values = differences(first.rise("validation_loss"), second.rise("validation_loss"))
    setting = f"mean rise of BN's validation loss, start {NAMES[start]} less BN: {DATA[data]}"
    return Comparison(first.study, setting, values, Expected.POSITIVE)


def modes_differ(data: str, start: str, split: str, index: int = 0) -> Comparison:
    """Return BN's loss (index 0) or accuracy (1) in evaluation mode less that in batch mode."""
    cell, name = Cell(data, start, "bn"), ("loss", "accuracy")[index]
    values = differences(cell.row(split=split, index=index), cell.row(BATCH_MODE, split, index))
    setting = f"BN's {name}, evaluation less batch mode, {split}: {DATA[data]}, start {NAMES[start]}"
    return Comparison(cell.study, setting, values, (Expected.NEGATIVE, Expected.POSITIVE)[index])


def gaps_differ(data: str) -> Comparison:
    """Return the generalization gap of AP2 less that of BN, after start BN."""
    ap2, bn = (Cell(data, "bn", arm) for arm in ("ap2", "bn"))
    setting = f"validation less training loss, AP2 less BN: {DATA[data]}, start BN"
    return Comparison(ap2.study, setting, differences(ap2.gap(), bn.gap()), Expected.POSITIVE)


def accuracies_differ(data: str, expected: Expected, margin: float | None = None) -> Comparison:
    """Return the validation accuracy of AP2 less that of BN in evaluation mode, after start BN."""
    ap2, bn = (Cell(data, "bn", arm) for arm in ("ap2", "bn"))
    setting = f"validation accuracy, AP2 less BN: {DATA[data]}, start BN"
    return Comparison(ap2.study, setting, differences(ap2.row(index=1), bn.row(index=1)), expected, margin)


def rate_mark(data: str) -> Mark:
    """Return whether BN's best learning rate after start BN is about ten times that after start AP2.

    The searches give one value for each start: it holds from a ratio of 10^0.5 on, does not hold up to 1, and cannot
    be told in between.
    """
    after_bn, after_ap2 = (Cell(data, start, "bn").log_rate for start in ("bn", "ap2"))
    if after_bn is None or after_ap2 is None:
        return Mark.MISSING
    if after_bn - after_ap2 >= LARGE_RATIO:
        return Mark.HOLDS
    return Mark.FAILS if after_bn - after_ap2 <= NO_RATIO else Mark.UNKNOWN


def decay_differs(name: str) -> tuple[Comparison, ...]:
    """Return a value of each run with weight decay less that without: `loss`, `rise` or `norm`."""
    measure, title, expected, margin = {
        "loss": (last_loss, "validation loss", Expected.SMALL, DECAY_MARGIN),
        "rise": (training_rise, "mean rise of the training loss", Expected.POSITIVE, None),
        "norm": (last_norm, "norm of the weights", Expected.NEGATIVE, None),
    }[name]
    comparisons = []
    for optimizer, optimizer_title in OPTIMIZERS.items():
        for arm in DECAY_ARMS:
            values: list[Values | None] = [
                measure(read_run(arm, optimizer, has_decay=has_decay)) for has_decay in (True, False)
            ]
            setting = f"{title}, decay 1e-4 less 0: {NAMES[arm]}, {optimizer_title}"
            comparisons.append(Comparison(DECAY_STUDY, setting, differences(*values), expected, margin))
    return tuple(comparisons)


def cost_differs() -> Comparison:
    """Return by round the cost of a step with AP2 less that with BN, in steps of the plain network."""
    document = read_result("analytic_cost")
    ratios = {} if document is None else document["result"]["networks"]["allconv"]["ratios"]
    values = (
        tuple(a - b for a, b in zip(*(ratios[method]["rounds"] for method in ("ap2", "bn")), strict=True))
        if ratios
        else ()
    )
    return Comparison("analytic_cost", "cost of a step, AP2 less BN: nine convolutions", values)


def formula_claims() -> tuple[Claim, ...]:
    """Return the claims that tests decide."""
    bindings, layers = "`tests/models/analytic/test_binding.py`", "`tests/norms/analytic/test_layer.py`"
    errors = "[errors](#errors-of-the-paper)"
    return (
        Claim(
            "§2, Eq. 5",
            "Mean and variance behind a ReLU have a closed form",
            "`tests/norms/analytic/test_moments.py`",
            shown=Mark.HOLDS,
        ),
        Claim(
            "§2.1", "The statistics of a layer depend on its weights and the s, b in front", bindings, shown=Mark.HOLDS
        ),
        Claim("§2.1", "Training and inference compute the same, and no mini-batch is used", layers, shown=Mark.HOLDS),
        Claim("§3", "Without s and b it is normalization propagation", bindings, shown=Mark.HOLDS),
        Claim("§1.1", "WN with μ = 0 is invariant to a bias in front", errors, shown=Mark.FAILS),
        Claim(
            "§2.1",
            "The variance of a convolution is that of its weights summed over positions",
            errors,
            shown=Mark.FAILS,
        ),
        Claim("§4", "f(2θ') makes steps four times as large, for Adam too", errors, shown=Mark.FAILS),
        Claim("footnote 2", "The norm of the weights grows with every step, for Adam too", errors, shown=Mark.FAILS),
    )


def mnist_claims(data: str) -> tuple[Claim, ...]:
    """Return the claims about a network of six layers, on MNIST or noisy MNIST."""
    place = {"mnist": "§5, Fig. 3", "noisy_mnist": "§5, Fig. 4"}[data]
    small, name = Expected.SMALL, DATA[data]
    return (
        Claim(
            place,
            f"After start none the plain network is hard to train: {name}",
            TABLES,
            (
                starts_differ(data, "none", ("none", "bn"), Expected.POSITIVE),
                arms_differ(data, "none", ("none", "ap2"), Expected.POSITIVE),
            ),
        ),
        Claim(
            place,
            f"After start none BN trains better than it: {name}",
            TABLES,
            (arms_differ(data, "none", ("bn", "none")),),
        ),
        Claim(
            place,
            f"AP2 trains well after every start (training losses within {LOSS_MARGIN:.2f}): {name}",
            TABLES,
            tuple(starts_differ(data, "ap2", (start, "bn"), small, LOSS_MARGIN) for start in ("none", "ap2")),
        ),
        Claim(
            place,
            f"After start BN the four methods are close (within {LOSS_MARGIN:.2f}): {name}",
            TABLES,
            tuple(arms_differ(data, "bn", (arm, "ap2"), small, LOSS_MARGIN) for arm in ("none", "wn", "bn")),
        ),
        Claim(
            place,
            f"After start AP2 the plain network and WN work well (within {LOSS_MARGIN:.2f} of AP2): {name}",
            TABLES,
            tuple(arms_differ(data, "ap2", (arm, "ap2"), small, LOSS_MARGIN) for arm in ("none", "wn")),
        ),
        Claim(place, f"After start AP2 BN oscillates: {name}", TABLES, (rises_differ(data, "ap2"),)),
        Claim(
            place,
            f"BN's best learning rate is ten times smaller after start AP2 than after start BN: {name}",
            TABLES,
            shown=rate_mark(data),
        ),
        Claim(
            place, f"After start none BN's evaluation mode is stochastic: {name}", TABLES, (rises_differ(data, "none"),)
        ),
        Claim(
            place,
            f"After start BN, BN is better in evaluation mode than in batch mode, on training examples: {name}",
            TABLES,
            (modes_differ(data, "bn", "train"),),
        ),
    )


def claims() -> tuple[Claim, ...]:
    """Return the claims of the paper in its order."""
    return (
        *formula_claims(),
        *mnist_claims("mnist"),
        Claim(
            "§5, Fig. 5",
            "AP2 overfits more than BN on MNIST, and its validation accuracy is lower",
            TABLES,
            (gaps_differ("mnist"), accuracies_differ("mnist", Expected.NEGATIVE)),
        ),
        *mnist_claims("noisy_mnist"),
        Claim(
            "§5, Fig. 6",
            "AP2 is on par with BN on noisy MNIST (within half a point)",
            TABLES,
            (accuracies_differ("noisy_mnist", Expected.SMALL, ACCURACY_MARGIN),),
        ),
        *(
            claim
            for data in CIFAR10
            for claim in (
                Claim(
                    "§5, Fig. 7",
                    f"AP2 trains well after every start (within {LOSS_MARGIN:.2f}): {DATA[data]}",
                    TABLES,
                    tuple(
                        starts_differ(data, "ap2", (start, "bn"), Expected.SMALL, LOSS_MARGIN)
                        for start in ("none", "ap2")
                    ),
                ),
                Claim(
                    "§5, Fig. 7",
                    f"After start BN, BN has the lowest training loss: {DATA[data]}",
                    TABLES,
                    tuple(arms_differ(data, "bn", ("bn", arm)) for arm in ("none", "wn", "ap2")),
                ),
                Claim(
                    "§5, Fig. 8",
                    f"BN generalizes better in evaluation mode than in batch mode: {DATA[data]}",
                    TABLES,
                    tuple(modes_differ(data, start, "validation", index) for start in STARTS for index in (0, 1)),
                ),
            )
        ),
        Claim(
            "§4",
            f"Weight decay achieves nothing (validation losses within {DECAY_MARGIN})",
            TABLES,
            decay_differs("loss"),
        ),
        Claim("§4", "Weight decay destabilizes training", TABLES, decay_differs("rise")),
        Claim("§4", "Weight decay makes the weights smaller", TABLES, decay_differs("norm")),
        Claim("§2.1", "AP2 costs less than BN in a convolutional network", TABLES, (cost_differs(),)),
        Claim(
            "§6",
            "AP2 reaches the lowest training loss (the paper: in many cases)",
            TABLES,
            tuple(
                arms_differ(data, start, ("ap2", arm))
                for data in ("mnist", "noisy_mnist", *CIFAR10)
                for start in STARTS
                for arm in ("none", "wn", "bn")
            ),
        ),
    )
