"""ε of a normalization layer inside torch's transformer encoder layers."""

from __future__ import annotations


class NeverEqualEpsilon(float):
    """ε that compares unequal to every number.

    `nn.TransformerEncoderLayer` in evaluation mode bypasses its two norms where their ε are equal: it computes
    LayerNorm from their γ, β and ε. An unequal ε makes it call the norms.
    """

    def __eq__(self, other: object) -> bool:
        return False

    def __ne__(self, other: object) -> bool:
        return True

    __hash__ = float.__hash__
