"""Claims of Ba, Kiros & Hinton 2016, section 6.5, with the differences that test them on pen tracks."""

from __future__ import annotations

from bench.documents.papers.marks import Claim, Comparison, Expected
from bench.documents.papers.seed_values import differences, epoch_values

PAGE = "[handwriting](ln_handwriting.md)"
STUDY = "handwriting_small"
HALF = 6
"""Half of the epochs of the study."""

COMPARABLE = 4.0
"""Nats of a track between comparable losses: 0.05 for each of its 80 points."""

_LAST = -1
_NAMES = {_LAST: "the last epoch", HALF: f"epoch {HALF}"}


def training_losses(
    epoch: int, epoch_of_none: int, expected: Expected = Expected.NEGATIVE, margin: float | None = None
) -> tuple[Comparison, ...]:
    """Return the training loss with LN less that without, after these epochs (-1 is the last one)."""
    values = (
        epoch_values(STUDY, arm, "training_loss", number) for arm, number in (("ln", epoch), ("none", epoch_of_none))
    )
    setting = f"training loss, ln after {_NAMES[epoch]} less none after {_NAMES[epoch_of_none]}"
    return (Comparison(f"{STUDY}_curves", setting, differences(*values), expected, margin),)


def claims() -> tuple[Claim, ...]:
    """Return the claims of the section in its order."""
    return (
        Claim("§6.5", "Handwriting generation on IAM-OnDB converges faster with LN", "the data is not available"),
        Claim(
            "§6.5",
            "On pen tracks of digits it converges faster (a lower training loss after half of the epochs)",
            PAGE,
            training_losses(HALF, HALF),
        ),
        Claim(
            "§6.5",
            "It is much faster (after half of the epochs the training loss without LN after all)",
            PAGE,
            training_losses(HALF, _LAST),
        ),
        Claim(
            "§6.5",
            "Both converge to comparable likelihoods (4 nats of a track apart after training)",
            PAGE,
            training_losses(_LAST, _LAST, Expected.SMALL, COMPARABLE),
        ),
    )
