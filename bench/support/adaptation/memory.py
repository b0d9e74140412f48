"""Peak memory of all arms over a stream of random images, in a process of its own."""

from __future__ import annotations

import argparse
import json
import resource

import torch
from torch.utils.data import DataLoader, TensorDataset

import bln_search
from bench.support.adaptation.networks import make_network
from bench.support.adaptation.sections import METHODS, PLAIN

BATCH = 64


def measure_growth(batches: int) -> dict[str, float]:
    """Return MB by which the peak memory grows while all arms run over a stream, and the size of its images in MB."""
    torch.manual_seed(0)
    network = bln_search.convert(make_network().eval(), method="same").eval()
    images = torch.randn(BATCH * batches, 3, 32, 32)
    loader = DataLoader(TensorDataset(images, torch.randint(10, (len(images),))), BATCH)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    bln_search.evaluate_streams(
        network, [images[:BATCH]], loader, adapt=[*PLAIN, *METHODS], population="moving", orders=1, progress=False
    )
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"growth_mb": (after - before) / 1024, "images_mb": images.numel() * 4 / 2**20}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", type=int, required=True, help="number of mini-batches")
    print(json.dumps(measure_growth(parser.parse_args().kind)))
