"""Claims of Ba, Kiros & Hinton 2016, *Layer Normalization*, with the differences that test them."""

from __future__ import annotations

from collections.abc import Callable
from math import log

from bench.documents.convnets_page import STUDIES as CONVNET_STUDIES
from bench.documents.convnets_page import USUAL_ROWS
from bench.documents.papers.bln_claims import losses_of
from bench.documents.papers.ln_task_claims import task_claims
from bench.documents.papers.marks import Claim, Comparison, Expected, Mark
from bench.documents.papers.seed_values import Values, differences, epoch_values
from bench.documents.recurrent_page import STUDIES as RECURRENT_STUDIES
from bench.support.reporting import read_result

CONVNETS_PAGE = "[convolutional networks](ln_convnets.md)"
MNIST_PAGE = "[MNIST](ln_mnist.md)"
RECURRENT_PAGE = "[recurrent networks](recurrent_gain.md)"
GEOMETRY_PAGE = "[geometry](geometry.md)"
INVARIANCES_PAGE = "[invariances](invariances.md)"
ERRORS = "[errors](#errors-of-the-paper)"
SMALL_SHARE = 0.05
"""A loss is unaffected by a change of less than this share of the loss of chance, log of the number of classes."""

_LONGER = "length-160"


def convnet_losses(better: str, worse: str) -> tuple[Comparison, ...]:
    """Return the validation loss of an arm less that of another, each in its usual row."""
    comparisons = []
    for name, label in CONVNET_STUDIES.items():
        study = losses_of(name)
        first, second = (
            study.of_row(arm, USUAL_ROWS[arm][0], [USUAL_ROWS[arm][1] or "-"], "validation") for arm in (better, worse)
        )
        comparisons.append(Comparison(name, f"{better} less {worse}: {label}", differences(first, second)))
    return tuple(comparisons)


def convnet_errors(better: str, worse: str) -> tuple[Comparison, ...]:
    """Return the validation error after the first epoch, in points, of an arm less that of another."""
    return tuple(
        Comparison(
            f"{name}_curves",
            f"error after epoch 1, {better} less {worse}: {label}",
            differences(*(epoch_values(name, arm, "validation_error", 1) for arm in (better, worse))),
        )
        for name, label in CONVNET_STUDIES.items()
    )


def early_errors() -> tuple[Comparison, ...]:
    """Return LN's validation error on MNIST after the first epoch less that of BN, by mini-batch size."""
    return tuple(
        Comparison(
            f"{name}_curves",
            f"error after epoch 1, ln less bn: `{name}`",
            differences(*(epoch_values(name, arm, "validation_error", 1) for arm in ("ln", "bn"))),
        )
        for name in ("ln_mnist_b4", "ln_mnist_b128", "ln_mnist_as_printed_b4", "ln_mnist_as_printed_b128")
    )


def _batch_size_change(arm: str, prefix: str) -> Values | None:
    """Return by seed the error after the last epoch with mini-batches of 4 less that with 128."""
    small, large = (epoch_values(f"{prefix}_{size}", arm, "validation_error", -1) for size in ("b4", "b128"))
    return None if small is None or large is None else dict(enumerate(differences(small, large)))


def batch_size_changes(arm: str, expected: Expected, margin: float | None = None) -> tuple[Comparison, ...]:
    """Return the change of an arm's error by small mini-batches, on MNIST."""
    comparisons = []
    for prefix in ("ln_mnist", "ln_mnist_as_printed"):
        change = _batch_size_change(arm, prefix)
        values = () if change is None else tuple(change.values())
        setting = f"{arm}, error at 4 less error at 128: `{prefix}`"
        comparisons.append(Comparison(f"{prefix}_b4_curves", setting, values, expected, margin))
    return tuple(comparisons)


def length_changes(arm: str, code: str, estimate: str, expected: Expected) -> tuple[Comparison, ...]:
    """Return the test loss on texts of twice the length of training less that at the length of training."""
    margin = SMALL_SHARE * log(2) if expected is Expected.SMALL else None
    return tuple(
        Comparison(
            name,
            f"{arm} `{code}`, γ = {gain}, 160 words less 80: `{name}`",
            differences(_recurrent_losses(name, arm, gain, code, estimate, _LONGER), before),
            expected,
            margin,
        )
        for name in RECURRENT_STUDIES
        for gain in ("1", "0.1")
        for before in [_recurrent_losses(name, arm, gain, code, estimate)]
    )


def _recurrent_losses(
    name: str, arm: str, gain: str, code: str, estimate: str, condition: str | None = None
) -> Values | None:
    study = read_result(name)
    if study is None:
        return None
    rows = study["loss_and_accuracy_by_condition"][condition] if condition else study["loss_and_accuracy_by_seed"]
    by_seed = rows[f"{arm} gain={gain} {code} {estimate} {study['spec']['training']['batch_size']}"]
    return {seed: by_seed[f"test seed {seed}"][0] for seed in study["spec"]["seeds"]}


def gain_changes(arm: str, code: str, estimate: str, expected: Expected) -> tuple[Comparison, ...]:
    """Return the test loss with an initial γ of 1 less that with 0.1."""
    return tuple(
        Comparison(
            name,
            f"{arm} `{code}`, γ = 1 less γ = 0.1: `{name}`",
            differences(*(_recurrent_losses(name, arm, gain, code, estimate) for gain in ("1", "0.1"))),
            expected,
        )
        for name in RECURRENT_STUDIES
    )


def recurrent_against(other: str, code: str, estimate: str) -> tuple[Comparison, ...]:
    """Return LN's test loss inside LSTM cells less that of another arm, both with an initial γ of 1 (§6)."""
    return tuple(
        Comparison(
            name,
            f"ln `--FF` less {other} `{code}`, γ = 1: `{name}`",
            differences(
                _recurrent_losses(name, "ln", "1", "--FF", "-"), _recurrent_losses(name, other, "1", code, estimate)
            ),
        )
        for name in RECURRENT_STUDIES
    )


def geometry_changes(
    measure: str, expected: Expected, value: Callable[[float, float], float], name: str
) -> tuple[Comparison, ...]:
    """Return the change of a measure over training by arm, for both hidden layers of the geometry study."""
    saved = read_result("geometry")
    comparisons = []
    for arm in ("bn", "ln"):
        layers = {} if saved is None else saved["result"]["arms"][arm]
        for position, layer in enumerate(list(layers)[:-1], start=1):
            by_epoch = layers[layer][measure]
            changes = tuple(value(first, last) for first, last in zip(by_epoch[0], by_epoch[-1], strict=True))
            comparisons.append(Comparison("geometry", f"{name}, {arm}, layer {position}", changes, expected))
    return tuple(comparisons)


def growth_against_plain() -> tuple[Comparison, ...]:
    """Return the relative growth of the weights' norms with BN and LN less that without normalization."""
    saved = read_result("geometry")
    if saved is None:
        return ()
    arms = saved["result"]["arms"]
    growth = {
        (arm, layer): [last / first for first, last in zip(by[measure][0], by[measure][-1], strict=True)]
        for measure in ("weight_norm",)
        for arm in ("none", "bn", "ln")
        for layer, by in arms[arm].items()
    }
    return tuple(
        Comparison(
            "geometry",
            f"growth of the norms, {arm} less none, layer {position}",
            tuple(a - b for a, b in zip(growth[arm, layer], growth["none", layer], strict=True)),
            Expected.POSITIVE,
        )
        for arm in ("bn", "ln")
        for position, layer in enumerate(list(arms[arm])[:-1], start=1)
    )


def claims() -> tuple[Claim, ...]:
    """Return the claims of the paper in its order."""
    return (
        Claim(
            "§3",
            "LN computes the same in training and at inference, and with mini-batches of one",
            "`tests/norms/test_invariances.py`, `tests/norms/test_normalization.py`",
            shown=Mark.HOLDS,
        ),
        Claim(
            "§3.1",
            "LN is unaffected by sequences longer than those of training",
            RECURRENT_PAGE,
            length_changes("ln", "--FF", "-", Expected.SMALL),
        ),
        Claim(
            "§3.1",
            "BN with population values is affected by them",
            RECURRENT_PAGE,
            length_changes("bn", "TT--", "frozen", Expected.POSITIVE),
        ),
        Claim(
            "§3.1",
            "An LN-RNN does not change if all summed inputs are re-scaled",
            "`tests/models/recurrent/test_cells.py`",
            shown=Mark.HOLDS,
        ),
        Claim("§5.1, Table 1", "Eighteen cells of invariances of BN, WN and LN", INVARIANCES_PAGE, shown=Mark.HOLDS),
        Claim("§5.1, text", "All methods are invariant to re-scaling of the data set", ERRORS, shown=Mark.FAILS),
        Claim("§5.2.2, Eq. 13-14", "The Fisher matrix of normalized models, for BN", ERRORS, shown=Mark.HOLDS),
        Claim("§5.2.2, Eq. 13-14", "The same for LN", ERRORS, shown=Mark.FAILS),
        Claim("§5.2.2", "Weights twice as large change the curvature by 1/2", ERRORS, shown=Mark.FAILS),
        Claim(
            "§5.2.2",
            "The weights of normalized layers grow, and their effective learning rate falls",
            GEOMETRY_PAGE,
            geometry_changes("weight_norm", Expected.POSITIVE, lambda a, b: b / a - 1, "relative change of the norm")
            + geometry_changes(
                "effective_rate", Expected.NEGATIVE, lambda a, b: b / a - 1, "relative change of the rate"
            ),
        ),
        Claim(
            "§5.2.2",
            "They grow more than without normalization (our reading of *implicit early stopping*)",
            GEOMETRY_PAGE,
            growth_against_plain(),
        ),
        Claim(
            "§5.2.2, Eq. 32-35",
            "Learning a gain does not depend on the scale of the inputs, learning a magnitude of weights does",
            "`tests/evaluation/test_fisher.py`",
            shown=Mark.HOLDS,
        ),
        Claim(
            "§6.2",
            "LN inside LSTM cells has a lower loss than no normalization",
            RECURRENT_PAGE,
            recurrent_against("none", "----", "-"),
        ),
        Claim(
            "§6.2",
            "LN inside LSTM cells has a lower loss than BN",
            RECURRENT_PAGE,
            recurrent_against("bn", "TT--", "frozen"),
        ),
        Claim(
            "§6.2",
            "LN with an initial γ of 1 is better than with 0.1",
            RECURRENT_PAGE,
            gain_changes("ln", "--FF", "-", Expected.NEGATIVE),
        ),
        Claim(
            "§4, Cooijmans et al.",
            "BN with an initial γ of 0.1 is better than with 1",
            RECURRENT_PAGE,
            gain_changes("bn", "TT--", "frozen", Expected.POSITIVE),
        ),
        Claim(
            "§6.6",
            "The size of the mini-batch hardly affects LN (less than 0.5 points of error)",
            MNIST_PAGE,
            batch_size_changes("ln", Expected.SMALL, 0.5),
        ),
        Claim("§6.6", "It affects BN", MNIST_PAGE, batch_size_changes("bn", Expected.POSITIVE)),
        Claim("§6.6", "LN converges faster than BN", MNIST_PAGE, early_errors()),
        Claim(
            "§6.7",
            "LN is faster than no normalization in convolutional networks",
            CONVNETS_PAGE,
            convnet_errors("ln-layer", "none"),
        ),
        Claim("§6.7", "BN is better than LN", CONVNETS_PAGE, convnet_losses("bn", "ln-layer")),
        Claim("§6.7", "BN is better than no normalization", CONVNETS_PAGE, convnet_losses("bn", "none")),
        Claim("§6.7", "LN is better than no normalization", CONVNETS_PAGE, convnet_losses("ln-layer", "none")),
        *task_claims(),
    )
