"""Claims of Ba, Kiros & Hinton 2016, section 6.5, with the differences that test them on pen tracks."""

from __future__ import annotations

from bench.documents.papers.epoch_comparison import LAST, ln_less_none
from bench.documents.papers.marks import Claim, Expected

PAGE = "[handwriting](ln_handwriting.md)"
STUDY = "handwriting_small"
HALF = 6
"""Half of the epochs of the study."""

COMPARABLE = 4.0
"""Nats of a track between comparable losses: 0.05 for each of its 80 points."""


def claims() -> tuple[Claim, ...]:
    """Return the claims of the section in its order."""
    return (
        Claim("§6.5", "Handwriting generation on IAM-OnDB converges faster with LN", "the data is not available"),
        Claim(
            "§6.5",
            "On pen tracks of digits it converges faster (a lower training loss after half of the epochs)",
            PAGE,
            ln_less_none(STUDY, HALF, HALF, loss="training"),
        ),
        Claim(
            "§6.5",
            "It is much faster (after half of the epochs the training loss without LN after all)",
            PAGE,
            ln_less_none(STUDY, HALF, LAST, loss="training"),
        ),
        Claim(
            "§6.5",
            "Both converge to comparable likelihoods (4 nats of a track apart after training)",
            PAGE,
            ln_less_none(STUDY, LAST, LAST, loss="training", expected=Expected.SMALL, margin=COMPARABLE),
        ),
    )
