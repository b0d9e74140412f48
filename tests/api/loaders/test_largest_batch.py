"""A mini-batch size is refused where a split has fewer examples, and nowhere else."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, TensorDataset

import bln_search
from tests.api.own_network import make_network

EXAMPLES = TensorDataset(torch.randn(50, 6), torch.randint(0, 2, (50,)))


class MiniBatches(Dataset):
    """Each index gives a mini-batch of 20 examples."""

    def __len__(self):
        return 5

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.randn(20, 6, generator=generator), torch.randint(0, 2, (20,), generator=generator)


def two_crops(examples):
    x, y = zip(*examples, strict=True)
    return torch.stack([*x, *x]), torch.stack([*y, *y])


LOADERS = {
    "a data set of mini-batches": lambda: DataLoader(MiniBatches(), batch_size=None),
    "a sampler of mini-batches": lambda: DataLoader(
        EXAMPLES, batch_sampler=BatchSampler(RandomSampler(EXAMPLES, replacement=True, num_samples=100), 20, False)
    ),
    "two crops of each example": lambda: DataLoader(EXAMPLES, batch_size=10, collate_fn=two_crops),
    "a sampler with replacement": lambda: DataLoader(
        EXAMPLES, batch_size=10, sampler=RandomSampler(EXAMPLES, replacement=True, num_samples=100)
    ),
}
"""Each yields 100 examples."""


@pytest.mark.parametrize("kind", LOADERS)
def test_every_size_up_to_the_number_of_examples_is_evaluated(kind):
    loader = LOADERS[kind]()
    ranked = bln_search.evaluate_configurations(make_network(), loader, loader, batch_sizes=[10, 100])
    assert {row.row.batch_size for row in ranked} >= {10, 100}
    with pytest.raises(bln_search.DataError, match="batch_sizes has 101"):
        bln_search.evaluate_configurations(make_network(), loader, loader, batch_sizes=[101])
