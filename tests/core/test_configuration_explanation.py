"""What a configuration does, in a sentence without letters."""

from __future__ import annotations

from itertools import product

import pytest

from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.configuration_explanation import explain_configuration
from bln_search.core.enums import MbnStatisticSource
from bln_search.core.method import Method

TRAINING, BATCH, EXAMPLE = "of the training data", "of the mini-batch", "of each example"
MEMORY = "of the memory of recent training mini-batches"
BOTH = "for the mean and the deviation"
SENTENCES = {
    ("TT--", None): f"Use the statistics {TRAINING} {BOTH}.",
    ("TF--", "moving"): f"Use the statistics {TRAINING} for the mean, {BATCH} for the deviation.",
    ("FT--", "target"): f"Use the statistics {BATCH} for the mean, of the population target for the deviation.",
    ("FF--", None): f"Use the statistics {BATCH} {BOTH}.",
    ("--FF", None): f"Use the statistics {EXAMPLE} {BOTH}.",
    ("--TF", "epoch"): f"Use the statistics {TRAINING} for the mean, {EXAMPLE} for the deviation.",
    ("TTTT", "frozen"): f"Use the statistics {TRAINING} {BOTH}, over the mini-batch and over the features.",
    ("TTFF", "frozen"): f"To normalize over the mini-batch, use the statistics {TRAINING} {BOTH}; over the features, "
    f"those {EXAMPLE} {BOTH}.",
    ("FTTF", "frozen"): f"To normalize over the mini-batch, use the statistics {BATCH} for the mean, {TRAINING} for "
    f"the deviation; over the features, those {TRAINING} for the mean, {EXAMPLE} for the deviation.",
    ("MT--", "frozen"): f"Use the statistics {MEMORY} for the mean, {TRAINING} for the deviation.",
    ("LC--", None): "Use the statistics of the last training step for the mean, "
    f"{MEMORY} and the mini-batch together for the deviation.",
    ("AF--", None): f"Use the statistics computed from the weights alone for the mean, {BATCH} for the deviation.",
    ("BB--", "frozen@0.1"): "Use the statistics of a blend of the training data (weight 0.1) and the mini-batch "
    f"{BOTH}.",
    ("EF--", "frozen@0.9"): "Use the statistics of a moving average from the training data (weight 0.9) over the "
    f"mini-batches of the stream for the mean, {BATCH} for the deviation.",
    ("--BF", "target@N16"): "Use the statistics of a blend of the population target (as 16 examples) and each example "
    f"for the mean, {EXAMPLE} for the deviation.",
    ("----", None): "Use the network as it is: it has no normalization.",
}


@pytest.mark.parametrize(("code", "estimate"), SENTENCES)
def test_a_configuration_is_explained_without_letters(code, estimate):
    assert explain_configuration(InferenceConfiguration(code), estimate) == SENTENCES[code, estimate]


@pytest.mark.parametrize("method", Method)
def test_configurations_of_a_method_have_different_explanations(method):
    configurations = all_configurations(method, tuple(MbnStatisticSource), from_weights=True)
    sentences = {explain_configuration(configuration) for configuration in configurations}
    assert len(sentences) == len(configurations)
    pairs = product(sentences, map(str, configurations))
    assert not [sentence for sentence, code in pairs if code in sentence or "{" in sentence]
