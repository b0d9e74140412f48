"""The loss of networks that give the probability of an example."""

from __future__ import annotations

from torch import Tensor

from bln_search.core.errors import DataError


def score_density_outputs(outputs: Tensor, _targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the negative log-likelihoods that a network gives, in nats, and False for every example.

    Args:
        outputs: negative log-likelihoods or their upper bounds, (n, 1).
        _targets: nothing, (n, 0).

    Raises:
        DataError: the outputs have another shape.
    """
    if outputs.shape != (len(outputs), 1):
        raise DataError(
            f"the network gives outputs of shape {tuple(outputs.shape)}: density takes the negative log-likelihood of "
            "each example, of shape (examples, 1)"
        )
    losses = outputs[:, 0]
    return losses, losses.new_zeros(len(losses)).bool()
