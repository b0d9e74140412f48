"""Sections on networks, whose records are kept in files, so that an interrupted run resumes."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from pathlib import Path

from torch import nn

import bln_search
from bench.support.adaptation.sections import Section
from bench.support.adaptation.stream_data import StreamImages
from bln_search.core.stream_outcomes import StreamRecord

POPULATION = "moving"
"""Running statistics of training: the population of networks as they are deployed, and as the papers have it."""

_POPULATION_IMAGES = 640


def run_section(
    folder: Path, name: str, section: Section, network: nn.Module, number: int, images: StreamImages
) -> list[StreamRecord]:
    """Return the records of a section on one network, from their file where it exists."""
    path = folder / f"{name}-{section.images}-{len(section.conditions)}-{number}.pickle"
    if not path.exists():
        ranked = bln_search.evaluate_streams(
            bln_search.convert(copy.deepcopy(network), method="same").eval(),
            images.training(_POPULATION_IMAGES),
            images.conditions(section.images, section.conditions),
            adapt=section.arms,
            population=POPULATION,
            source_loader=images.source(section.selection_images) if section.selects else None,
            held_out_loader=images.held_out(section.selection_images) if section.selects else None,
            oracle=section.selects,
            **section.stream_of_network(number),
        )
        records = [replace(record, seed=number) for record in ranked.records]
        folder.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_bytes(pickle.dumps(records))
        partial.rename(path)
    loaded: list[StreamRecord] = pickle.loads(path.read_bytes())
    methods = {arm["label"]: arm["name"] for arm in section.arms}
    return [replace(record, method=methods[record.arm.partition(" (")[0]]) for record in loaded]
