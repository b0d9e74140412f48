"""The values that a layer stores for its configuration."""

from __future__ import annotations

import torch

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.method import Statistic
from bln_search.norms import BLN
from bln_search.norms.network.stored_values import find_stored_population, missing_stored_statistics
from bln_search.norms.statistics import LayerPopulation, PopulationPair


def configured(code):
    layer = BLN(3)
    pairs = [PopulationPair(torch.rand(1, 3), torch.rand(1, 3)), PopulationPair(torch.rand(1, 1), torch.rand(1, 1))]
    layer.configure(InferenceConfiguration(code), LayerPopulation(*pairs))
    return layer, pairs


def test_stored_values_are_those_that_were_configured():
    layer, (batch, feature) = configured("TFFT")
    stored = find_stored_population(layer)
    assert torch.equal(stored.batch.mean, batch.mean)
    assert torch.equal(stored.feature.deviation, feature.deviation)
    assert not missing_stored_statistics(layer)


def test_configuration_of_the_mini_batch_reads_no_stored_value():
    layer, _ = configured("FFFF")
    assert find_stored_population(layer) is None
    assert not missing_stored_statistics(layer)


def test_dropped_values_stay_absent_or_nan():
    layer, (batch, _) = configured("FTFF")
    layer.drop_unused_populations()
    stored = find_stored_population(layer)
    assert stored.batch.mean.isnan().all()
    assert torch.equal(stored.batch.deviation, batch.deviation)
    assert stored.feature is None


def test_missing_values_are_named():
    layer = BLN(3)
    layer.configuration = InferenceConfiguration("TFFT")
    assert missing_stored_statistics(layer) == [Statistic.BATCH_MEAN, Statistic.FEATURE_DEVIATION]
