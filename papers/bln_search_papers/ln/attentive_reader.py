"""The attentive reader: answers a question by attention to the words of a document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from bln_search.core.errors import ModelError
from bln_search.data.texts import PADDING
from bln_search.models import NormLayerConstructor
from bln_search.models.recurrent import CellOutputNormalizedLSTM, NormalizedLSTM, StepwiseLayer
from bln_search_papers.ln.imdb_cloze import DOCUMENT_LENGTH, QUESTION_LENGTH

_CELLS: Mapping[str, Callable[..., StepwiseLayer]] = {"cells": NormalizedLSTM, "cell_output": CellOutputNormalizedLSTM}


class AttentiveReader(nn.Module):
    """Two bidirectional LSTMs, one for the document and one for the question, and attention between them.

        y(t) = states of the document's word t, u = last states of the question, both of two directions
        m(t) = tanh(W_ym y(t) + W_um u),    s(t) ∝ exp(w·m(t)),    r = Σ_t s(t) y(t)
        logits = W_g tanh(W_rg r + W_ug u)

    Padding gets no attention. There is normalization inside the cells of all four LSTM layers.

    Args:
        input_shape: (QUESTION_LENGTH + DOCUMENT_LENGTH,), the question, then the document.
        classes: number of answers.
        norm: makes a normalization layer for a number of features.
        vocabulary: number of token ids.
        widths: number of units of an LSTM in one direction, one number.
        embedding: number of features of a token id.
        normalize: `cells` for normalization of the products with weights and of the output of cells; `cell_output` for
            the latter only.
        gain: initial value of γ; None for 1.

    Input: token ids (N, T). Output: logits (N, classes).
    Source: Hermann et al. 2015, Teaching Machines to Read and Comprehend, section 3.2; normalization: Cooijmans et al.
    2017, section 5.4, and Ba, Kiros & Hinton 2016, section 6.2.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        classes: int,
        norm: NormLayerConstructor,
        vocabulary: int | None = None,
        widths: Sequence[int] = (128,),
        embedding: int = 512,
        normalize: str = "cells",
        gain: float | None = None,
    ) -> None:
        super().__init__()
        if vocabulary is None or tuple(input_shape) != (QUESTION_LENGTH + DOCUMENT_LENGTH,):
            raise ModelError(
                f"attentive_reader takes {QUESTION_LENGTH} token ids of a question, {DOCUMENT_LENGTH} of a document, "
                f"not examples of shape {tuple(input_shape)}: choose the data imdb_cloze"
            )
        if len(widths) != 1 or widths[0] < 1:
            raise ModelError(f"attentive_reader has one width, that of its LSTMs in one direction, not {list(widths)}")
        if normalize not in _CELLS:
            raise ModelError(f"normalize of attentive_reader must be {' or '.join(_CELLS)}, not {normalize!r}")
        self.glorot = True
        self.embedding = nn.Embedding(vocabulary, embedding)
        make_layer = partial(_CELLS[normalize], embedding, widths[0], norm, gain=1.0 if gain is None else gain)
        self.document, self.document_backward = (make_layer(steps=DOCUMENT_LENGTH) for _ in range(2))
        self.question, self.question_backward = (make_layer(steps=QUESTION_LENGTH) for _ in range(2))
        units = 2 * widths[0]
        self.match_document = nn.Linear(units, units, bias=False)
        self.match_question = nn.Linear(units, units)
        self.score = nn.Linear(units, 1, bias=False)
        self.join_document = nn.Linear(units, units, bias=False)
        self.join_question = nn.Linear(units, units)
        self.classifier = nn.Linear(units, classes)

    def forward(self, token_ids: Tensor) -> Tensor:
        """Return the logits of the answers, (N, classes)."""
        question, document = token_ids[:, :QUESTION_LENGTH], token_ids[:, QUESTION_LENGTH:]
        embedded = self.embedding(question)
        asked = torch.cat([self.question(embedded)[:, -1], self.question_backward(embedded.flip(1))[:, -1]], 1)
        embedded = self.embedding(document)
        read = torch.cat([self.document(embedded), self.document_backward(embedded.flip(1)).flip(1)], 2)
        matched = torch.tanh(self.match_document(read) + self.match_question(asked).unsqueeze(1))
        scores = self.score(matched).squeeze(2).masked_fill(document == PADDING, -torch.inf)
        attended = (torch.softmax(scores, 1).unsqueeze(2) * read).sum(1)
        logits: Tensor = self.classifier(torch.tanh(self.join_document(attended) + self.join_question(asked)))
        return logits
