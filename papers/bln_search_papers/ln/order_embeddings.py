"""Order embeddings: an image encoder and a recurrent sentence encoder with one space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bln_search.core.errors import ModelError
from bln_search.data import InputField, InputShape, StructuredInputs
from bln_search.models import NormLayerConstructor
from bln_search.models.recurrent import NormalizedGRU
from bln_search_papers.ln.mnist_pair_captions import PADDING

_KERNEL, _STRIDE = 5, 2


class OrderEmbeddings(nn.Module):
    """Embeds an image by two convolutions, and its caption by a GRU, as vectors without negative coordinates.

        f_image = |W a(image) + b| / ‖·‖,    f_caption = |h_T| / ‖·‖

    h_T is the state of the GRU after the last word; padding behind it changes nothing. There is normalization inside
    the cells of the GRU only. The sources have features of a fixed convolutional network in place of a(image).

    Args:
        input_shape: `image` (C, H, W) and `caption` (T,).
        classes: not used; labels are meanings.
        norm: makes a normalization layer for a number of features.
        vocabulary: number of token ids.
        widths: channels of the two convolutions, units of the GRU.
        embedding: number of features of a token id.
        gain: initial value of γ; None for 1.

    Input: images (N, C, H, W) and token ids (N, T). Output: embeddings of image and caption, (N, 2, units).
    Source: Vendrov, Kiros, Fidler & Urtasun 2016, Order-Embeddings of Images and Language, section 3; normalization:
    Ba, Kiros & Hinton 2016, section 6.1, Eq. 26-28.
    """

    def __init__(
        self,
        input_shape: InputShape,
        classes: int,  # noqa: ARG002 - the argument of every model
        norm: NormLayerConstructor,
        vocabulary: int | None = None,
        widths: Sequence[int] = (16, 32, 64),
        embedding: int = 512,
        gain: float | None = None,
    ) -> None:
        super().__init__()
        image, caption = _require_image_and_caption(input_shape)
        if vocabulary is None:
            raise ModelError("order_embeddings takes token ids, and this data has no vocabulary: choose other data")
        if len(widths) != 3 or min(widths) < 1:
            raise ModelError(
                f"order_embeddings has three widths, of two convolutions and of its GRU, not {list(widths)}"
            )
        self.glorot = True
        first, second, units = widths
        self.convolutions = nn.Sequential(
            nn.Conv2d(image.shape[0], first, _KERNEL, _STRIDE, padding=_KERNEL // 2),
            nn.ReLU(),
            nn.Conv2d(first, second, _KERNEL, _STRIDE, padding=_KERNEL // 2),
            nn.ReLU(),
            nn.Flatten(),
        )
        height, width = (-(-extent // _STRIDE**2) for extent in image.shape[1:])
        self.image_projection = nn.Linear(second * height * width, units)
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.caption = NormalizedGRU(embedding, units, norm, steps=caption.shape[0], gain=1.0 if gain is None else gain)

    def forward(self, inputs: StructuredInputs | Mapping[str, Any]) -> Tensor:
        """Return the embeddings of image and caption, (N, 2, units)."""
        token_ids = inputs["caption"]
        projected = self.image_projection(self.convolutions(inputs["image"]))
        states = self.caption(self.embedding(token_ids), token_ids != PADDING)
        return torch.stack([_normalized_absolute_values(projected), _normalized_absolute_values(states[:, -1])], 1)


def _normalized_absolute_values(x: Tensor) -> Tensor:
    return F.normalize(x.abs(), dim=1)


def _require_image_and_caption(shape: InputShape) -> tuple[InputField, InputField]:
    """Return the fields of both inputs. Raises ModelError if there are others."""
    if isinstance(shape, tuple) or set(shape) != {"image", "caption"} or len(shape["image"].shape) != 3:
        raise ModelError(
            "order_embeddings takes an image (channels, height, width) and a caption: choose the data "
            "mnist_pair_captions"
        )
    return shape["image"], shape["caption"]
