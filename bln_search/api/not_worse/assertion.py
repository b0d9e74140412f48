"""Assert that a network is not worse than another one, in any of several conditions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from bln_search.api.inputs.batch_forms import Target
from bln_search.api.inputs.loaders import Loader
from bln_search.api.inputs.score import UserScore
from bln_search.api.not_worse.compared_network import Network
from bln_search.api.not_worse.comparison import compare_with_baseline
from bln_search.api.not_worse.report import NotWorseReport
from bln_search.evaluation.adapted_network import Forward
from bln_search.ranking.paired.non_inferiority import NotWorseVerdict

_UNDECIDED = ("fail", "pass")


def assert_not_worse(
    model: Network,
    baseline: Network,
    loader: Loader,
    *,
    conditions: Mapping[str, Loader] = MappingProxyType({}),
    margin: float | None = None,
    metric: Literal["loss", "accuracy"] = "loss",
    score: UserScore = "cross_entropy",
    forward: Forward | None = None,
    target: Target | None = None,
    undecided: Literal["fail", "pass"] = "fail",
    progress: bool = True,
) -> NotWorseReport:
    """Assert that a network is not worse than another one by a margin or more, on other examples like these.

    Each mini-batch is passed to both networks, and their losses are compared example by example. If the network is
    worse by the margin or more in any condition, the assertion passes with a probability of at most 5 %. With
    `undecided="pass"` it fails with a probability of at most 5 % if the network is worse by the margin at most.

    For losses this needs about 20 failures among the examples where a network is worse by rare failures.

    Outputs that are identical, bit by bit, are not worse. Warns (BatchDependenceWarning) if outputs depend on the
    mini-batch: mini-batches are then compared instead of examples.

    Args:
        model: The network, in evaluation mode if it is in training mode. Or a function that takes its inputs and
            returns outputs, as of a network in another runtime: a tensor or an array.
        baseline: The network, or function, that it replaces.
        loader: Mini-batches with targets of the data on which both are compared. It is read once.
        conditions: Further mini-batches with targets by name, as corrupted images.
        margin: Difference of mean losses, or of accuracies as fractions, from which on a network is worse. Choose it
            before you see a result. By default 0.01 nats for a loss with correctness and 0.01 for accuracy, otherwise
            1 % of the loss of the baseline. With 0 a network passes only if it is better or has identical outputs.
        metric: What is compared: `loss`, or `accuracy` of a score with correctness.
        score: The loss, as of `evaluate_configurations`.
        forward: Calls a network, as of `evaluate_configurations`.
        target: Returns the targets, as of `evaluate_configurations`.
        undecided: Whether the assertion fails or passes where examples are too few to tell.
        progress: Print a line on standard error every ten seconds, after the first ten.

    Returns:
        The report.

    Raises:
        AssertionError: The network is worse, or with `undecided="fail"` not shown to be not worse. The message has the
            figures of each condition, and how many examples would decide.
        ModelError: A network cannot be evaluated; the message says what to change.
        DataError: A loader does not fit a network, or a loss of the baseline is not finite.
        ValueError: Another argument is invalid.

    Example:
        bln_search.assert_not_worse(quantized, model, test_loader, conditions={"noise": noisy_loader}, margin=0.02)
    """
    __tracebackhide__ = True
    check_undecided(undecided)
    report = compare_with_baseline(
        model,
        baseline,
        loader,
        conditions=conditions,
        margin=margin,
        metric=metric,
        score=score,
        forward=forward,
        target=target,
        progress=progress,
    )
    require_not_worse(report, undecided)
    return report


def check_undecided(undecided: str) -> None:
    """Raise ValueError for another value than those of the argument."""
    if undecided not in _UNDECIDED:
        raise ValueError(f"undecided is fail or pass, not {undecided!r}")


def require_not_worse(report: NotWorseReport, undecided: str) -> None:
    """Raise AssertionError if a network is worse, or with `undecided="fail"` if that cannot be told."""
    __tracebackhide__ = True
    passes = [NotWorseVerdict.NOT_WORSE] + ([NotWorseVerdict.CANNOT_TELL] if undecided == "pass" else [])
    if report.verdict not in passes:
        raise AssertionError(str(report))
