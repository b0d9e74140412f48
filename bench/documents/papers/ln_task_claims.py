"""Claims of the LN paper about other tasks than classification, its sections 6.1 to 6.5."""

from __future__ import annotations

from bench.documents.papers import ln_handwriting_claims
from bench.documents.papers.epoch_comparison import LAST, ln_less_none
from bench.documents.papers.marks import Claim, Comparison, Expected
from bench.documents.papers.seed_values import Values, differences, epoch_values
from bench.support.reporting import read_result

ORDER_PAGE = "[order embeddings](ln_order_embeddings.md)"
ORDER_STUDY = "order_embeddings_small"
SKIP_PAGE = "[skip-thoughts](ln_skip_thoughts.md)"
SKIP_STUDY = "skip_thoughts_small"
READER_PAGE = "[attentive reader](ln_attentive_reader.md)"
READER_STUDY = "imdb_cloze_small"
DRAW_PAGE = "[DRAW](ln_draw.md)"
DRAW_STUDY = "draw_mnist_small"


def vector_accuracies() -> tuple[Comparison, ...]:
    """Return the accuracy from sentence vectors of skip-thoughts with LN less that without, in points."""
    saved = read_result("sentence_vectors")
    if saved is None:
        return (Comparison("sentence_vectors", "accuracy, ln less none", (), Expected.POSITIVE),)
    ln, none = (saved["result"]["accuracy_by_seed"][arm]["trained"] for arm in ("ln", "none"))
    points = tuple(100 * (one - other) for one, other in zip(ln, none, strict=True))
    return (Comparison("sentence_vectors", "accuracy, ln less none, points", points, Expected.POSITIVE),)


def reader_losses(other: str, gain: str) -> tuple[Comparison, ...]:
    """Return the lowest validation loss by epoch of the attentive reader with LN, γ = 1, less that of another arm."""
    values = _lowest_loss(READER_STUDY, "ln gain=1"), _lowest_loss(READER_STUDY, f"{other} gain={gain}")
    setting = f"lowest validation loss, ln with γ = 1 less {other} with γ = {gain}"
    return (Comparison(f"{READER_STUDY}_curves", setting, differences(*values)),)


def early_reader_losses() -> tuple[Comparison, ...]:
    """Return the validation loss after two epochs of the attentive reader with LN, γ = 1, less that without."""
    values = (epoch_values(READER_STUDY, f"{arm} gain=1", "validation_loss", 2) for arm in ("ln", "none"))
    setting = "validation loss after epoch 2, ln with γ = 1 less none"
    return (Comparison(f"{READER_STUDY}_curves", setting, differences(*values)),)


def _lowest_loss(study: str, label: str, epochs: int | None = None) -> Values | None:
    """Return the lowest validation loss of the first epochs, of all with None, by position of the seed."""
    curves = read_result(f"{study}_curves")
    if curves is None:
        return None
    by_epoch = [record["seeds"] for record in curves["arms"][label]["validation_loss"][:epochs]]
    return dict(enumerate(map(min, zip(*by_epoch, strict=True))))


def order_speed(epochs: int) -> tuple[Comparison, ...]:
    """Return the lowest validation loss with LN in its first epochs less that without LN in all."""
    values = _lowest_loss(ORDER_STUDY, "ln", epochs), _lowest_loss(ORDER_STUDY, "none")
    setting = f"lowest validation loss, ln in {epochs} epochs less none in all"
    return (Comparison(f"{ORDER_STUDY}_curves", setting, differences(*values)),)


def task_claims() -> tuple[Claim, ...]:
    """Return the claims in the order of the paper."""
    return (
        Claim("§6.1", "Order embeddings on MSCOCO are trained faster and better with LN", "the data is not available"),
        Claim(
            "§6.1",
            "On captions of MNIST pairs order embeddings with LN have a lower loss after training than without",
            ORDER_PAGE,
            ln_less_none(ORDER_STUDY, LAST, LAST),
        ),
        Claim(
            "§6.1",
            "They converge faster (a lower loss after half of the epochs)",
            ORDER_PAGE,
            ln_less_none(ORDER_STUDY, 15, 15),
        ),
        Claim(
            "§6.1",
            "They need 60 % of the time (within 18 of 30 epochs a loss below the lowest without LN)",
            ORDER_PAGE,
            order_speed(18),
        ),
        Claim(
            "§6.2", "The attentive reader on the CNN corpus is trained faster and better", "the data is not available"
        ),
        Claim(
            "§6.2",
            "On cloze questions from film reviews LN has a lower loss than no normalization",
            READER_PAGE,
            reader_losses("none", "1"),
        ),
        Claim(
            "§6.2",
            "There LN has a lower loss than BN",
            READER_PAGE,
            reader_losses("bn", "1") + reader_losses("bn", "0.1"),
        ),
        Claim(
            "§6.2", "There LN with an initial γ of 1 is better than with 0.1", READER_PAGE, reader_losses("ln", "0.1")
        ),
        Claim(
            "§6.2",
            "There LN converges faster than no normalization (loss after two epochs)",
            READER_PAGE,
            early_reader_losses(),
        ),
        Claim(
            "§6.3",
            "On sentences of film reviews skip-thoughts with LN has a lower loss after training than without",
            SKIP_PAGE,
            ln_less_none(SKIP_STUDY, LAST, LAST),
        ),
        Claim(
            "§6.3",
            "It converges faster (a lower loss after half of the epochs)",
            SKIP_PAGE,
            ln_less_none(SKIP_STUDY, 5, 5),
        ),
        Claim(
            "§6.3",
            "Its vectors give a higher accuracy in another task (polarity of reviews)",
            SKIP_PAGE,
            vector_accuracies(),
        ),
        Claim(
            "§6.4",
            "DRAW with LN has a lower bound after training than without (82.09 against 82.36 nats)",
            DRAW_PAGE,
            ln_less_none(DRAW_STUDY, LAST, LAST),
        ),
        Claim(
            "§6.4",
            "It converges faster (a lower bound after half of the epochs)",
            DRAW_PAGE,
            ln_less_none(DRAW_STUDY, 20, 20),
        ),
        Claim(
            "§6.4",
            "It converges almost twice as fast (after half of the epochs the bound of DRAW without LN after all)",
            DRAW_PAGE,
            ln_less_none(DRAW_STUDY, 20, LAST),
        ),
        *ln_handwriting_claims.claims(),
    )
