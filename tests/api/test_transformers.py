"""Classifiers of Hugging Face with attention masks: the one pass gives the losses of plain passes."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import bln_search
from bln_search.core.errors import ModelError

transformers = pytest.importorskip("transformers")

SIZE, LENGTH, WORDS, CLASSES = 8, 10, 50, 3
OF_ALL = {"vocab_size": WORDS, "num_labels": CLASSES, "initializer_range": 0.4}


def bert(attention):
    config = transformers.BertConfig(
        **OF_ALL, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=16, attn_implementation=attention,
    )  # fmt: skip
    return transformers.BertForSequenceClassification(config)


def distilbert(attention):
    config = transformers.DistilBertConfig(
        **OF_ALL, dim=16, n_layers=2, n_heads=2, hidden_dim=24, max_position_embeddings=16,
        attn_implementation=attention,
    )  # fmt: skip
    return transformers.DistilBertForSequenceClassification(config)


def gpt2(attention):
    config = transformers.GPT2Config(
        **OF_ALL, n_embd=16, n_layer=2, n_head=2, n_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        attn_implementation=attention,
    )  # fmt: skip
    return transformers.GPT2ForSequenceClassification(config)


def converted(build, attention="sdpa", method=None):
    """A converted network; scales and shifts are random, so that a fused pass has rounding errors of its own."""
    torch.manual_seed(0)
    options = {"batch_size": SIZE} if method is None else {"method": method}
    network = bln_search.convert(build(attention), **options)
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, bln_search.BLN | bln_search.LN):
                module.weight.uniform_(0.5, 1.5)
                module.bias.normal_(0, 0.3)
    return network


def padded_batches(n, seed, labels=True):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, LENGTH + 1, (n, 1), generator=generator)
    mask = (torch.arange(LENGTH) < lengths).long()
    parts = {"input_ids": torch.randint(3, WORDS, (n, LENGTH), generator=generator) * mask, "attention_mask": mask}
    if labels:
        parts["labels"] = torch.randint(CLASSES, (n,), generator=generator)
    starts = range(0, n, SIZE)
    return [transformers.BatchEncoding({k: x[start : start + SIZE] for k, x in parts.items()}) for start in starts]


@torch.no_grad()
def plain_losses(network, row, batches):
    """Losses of an applied row, the last mini-batch filled with the first examples."""
    network = bln_search.apply_configuration(copy.deepcopy(network), row).eval()
    losses = []
    for batch in batches:
        n = len(batch["labels"])
        filled = {k: torch.cat([batch[k], batches[0][k][: SIZE - n]]) for k in ("input_ids", "attention_mask")}
        losses.append(F.cross_entropy(network(**filled).logits[:n], batch["labels"], reduction="none"))
    return torch.cat(losses)


def outcomes_of(ranked):
    return {(str(key.configuration), key.estimate): value.losses for key, value in ranked.outcomes.items()}


SLOW = [(bert, "eager", None), *((build, kind, None) for build in (distilbert, gpt2) for kind in ("sdpa", "eager"))]


@pytest.mark.parametrize(
    ("build", "attention", "method"),
    [(bert, "sdpa", None), (bert, "sdpa", "same"), *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)],
)
def test_one_pass_with_attention_masks_equals_plain_passes(build, attention, method):
    network, validation = converted(build, attention, method), padded_batches(21, seed=1)
    ranked = bln_search.evaluate_configurations(network, padded_batches(24, seed=0, labels=False), validation)
    outcomes = outcomes_of(ranked)
    assert len(outcomes) == len(ranked) == (16 if method is None else 4)
    expected = {(str(row.configuration), row.row.estimate): plain_losses(network, row, validation) for row in ranked}
    for key, losses in expected.items():
        torch.testing.assert_close(torch.from_numpy(outcomes[key]), losses, rtol=1e-5, atol=1e-5)
    others = [*list(expected)[1:], next(iter(expected))]  # rows do differ, so that the comparison can fail
    assert all(
        (expected[key] - expected[other]).abs().max() > 1e-3 for key, other in zip(expected, others, strict=True)
    )


def test_mixed_examples_with_a_mask_name_the_true_cause():
    class Centred(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = bert("sdpa")

        def forward(self, input_ids, attention_mask):
            logits = self.encoder(input_ids, attention_mask=attention_mask).logits
            return logits - logits.mean(0)

    network = bln_search.convert(Centred(), batch_size=SIZE)
    with pytest.raises(ModelError, match=r"does not treat examples independently.*one_pass=False"):
        bln_search.evaluate_configurations(network, padded_batches(24, seed=0), padded_batches(16, seed=1))
