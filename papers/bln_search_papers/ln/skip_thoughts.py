"""Skip-thoughts: a recurrent encoder of sentences, trained to predict the sentences around them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from bln_search.core.errors import ModelError
from bln_search.models import NormLayerConstructor
from bln_search.models.recurrent import NormalizedGRU
from bln_search_papers.ln.imdb_sentences import SENTENCE_LENGTH


class SkipThoughts(nn.Module):
    """A GRU encodes a sentence; two GRUs decode the sentence before it and the one after it.

    The state of the encoder after the last word is a further input of each decoder at every step, so that it has its
    own weights in the gates. Each decoder reads the true words before the one that it predicts. There is normalization
    inside the cells of all three GRUs.

    Args:
        input_shape: (3·SENTENCE_LENGTH,), the sentence, the one before it and the one after it.
        classes: number of words that are predicted.
        norm: makes a normalization layer for a number of features.
        vocabulary: number of token ids.
        widths: units of the encoder and of the decoders.
        embedding: number of features of a token id.
        gain: initial value of γ; None for 1.
        per_token: True, as for every model that predicts tokens.

    Input: token ids (N, 3·SENTENCE_LENGTH). Output: logits of the words of the sentence before and of the one after,
    (N, 2·SENTENCE_LENGTH, classes).
    Source: Kiros et al. 2015, Skip-Thought Vectors, section 2.1; normalization: Ba, Kiros & Hinton 2016, section 6.3,
    Eq. 26-28.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        classes: int,
        norm: NormLayerConstructor,
        vocabulary: int | None = None,
        widths: Sequence[int] = (128, 128),
        embedding: int = 512,
        gain: float | None = None,
        per_token: bool = True,  # noqa: FBT001, FBT002
    ) -> None:
        super().__init__()
        if vocabulary is None or tuple(input_shape) != (3 * SENTENCE_LENGTH,) or not per_token:
            raise ModelError(
                f"skip_thoughts takes three sentences of {SENTENCE_LENGTH} token ids, and predicts the words of two of "
                f"them, not examples of shape {tuple(input_shape)}: choose the data imdb_sentences"
            )
        if len(widths) != 2 or min(widths) < 1:
            raise ModelError(f"skip_thoughts has two widths, of its encoder and its decoders, not {list(widths)}")
        self.glorot = True
        encoder_units, decoder_units = widths
        self.embedding = nn.Embedding(vocabulary, embedding)
        make_layer = partial(NormalizedGRU, norm=norm, steps=SENTENCE_LENGTH, gain=1.0 if gain is None else gain)
        self.encoder = make_layer(embedding, encoder_units)
        self.decoder_before, self.decoder_after = (
            make_layer(embedding + encoder_units, decoder_units) for _ in range(2)
        )
        self.classifier = nn.Linear(decoder_units, classes)

    def encode(self, token_ids: Tensor) -> Tensor:
        """Return the vectors (N, units of the encoder) of sentences (N, SENTENCE_LENGTH)."""
        states: Tensor = self.encoder(self.embedding(token_ids))
        return states[:, -1]

    def forward(self, token_ids: Tensor) -> Tensor:
        """Return the logits of the words around the sentence, (N, 2·SENTENCE_LENGTH, classes)."""
        middle, before, after = token_ids.chunk(3, 1)
        context = self.encode(middle).unsqueeze(1).expand(-1, SENTENCE_LENGTH, -1)
        states = [
            decoder(torch.cat([self.embedding(words), context], 2))
            for decoder, words in ((self.decoder_before, before), (self.decoder_after, after))
        ]
        logits: Tensor = self.classifier(torch.cat(states, 1))
        return logits
