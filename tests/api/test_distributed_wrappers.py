"""A network that is wrapped for distributed training is an error of `convert`; a converted one can be wrapped."""

from __future__ import annotations

import pytest
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

import bln_search
from bln_search.core.errors import ModelError


@pytest.fixture
def process_group(tmp_path):
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


class FullyShardedDataParallel(nn.Module):
    """Named as torch's class, which needs an accelerator."""

    def __init__(self, module):
        super().__init__()
        self.module = module


def make_network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))


WRAPPED = {
    "data parallel": DistributedDataParallel,
    "data parallel inside": lambda network: nn.Sequential(DistributedDataParallel(network), nn.ReLU()),
    "fully sharded": FullyShardedDataParallel,
}


@pytest.mark.usefixtures("process_group")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["same", "bln"])
@pytest.mark.parametrize("name", WRAPPED)
def test_a_wrapped_network_is_an_error_and_unchanged(name, method):
    network = make_network()
    wrapped = WRAPPED[name](network)
    with pytest.raises(ModelError, match=r"wrapped for distributed training .*: convert the network first"):
        bln_search.convert(wrapped, method=method)
    assert type(network[1]) is nn.BatchNorm1d


@pytest.mark.usefixtures("process_group")
@pytest.mark.filterwarnings("ignore")
def test_a_converted_network_in_data_parallel_trains_like_the_original():
    outputs = []
    for network in (make_network(), bln_search.convert(make_network(), method="same")):
        torch.manual_seed(1)
        wrapped = DistributedDataParallel(network)
        optimizer = torch.optim.SGD(wrapped.parameters(), 0.1)
        for _ in range(4):
            optimizer.zero_grad()
            nn.functional.cross_entropy(wrapped(torch.randn(20, 6)), torch.randint(3, (20,))).backward()
            optimizer.step()
        outputs.append(wrapped.eval()(torch.ones(2, 6)))
    torch.testing.assert_close(outputs[1], outputs[0])
