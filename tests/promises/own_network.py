"""Tables of the Python interface: a network of the user with random images, before and after fine-tuning."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import bln_search

_COLUMNS = ("state", "validation_loss_mean", "test_loss_mean")


def compute_tables():
    """Entries of each table: conversion, training, the ranked table, fine-tuning, a search of layers, corruption."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(
            *(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()),
            *(nn.Linear(144, 6), nn.LayerNorm(6), nn.Tanh(), nn.Linear(6, 3)),
        )
        network = bln_search.convert(network, batch_size=10)
        inputs, targets = torch.rand(120, 1, 8, 8), torch.randint(0, 3, (120,))
        splits = [[(inputs[i : i + 10], targets[i : i + 10]) for i in range(s, s + 40, 10)] for s in (0, 40, 80)]
        return evaluate(train(network, splits[0]), *splits)


def train(network, mini_batches):
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for batch, targets in mini_batches * 2:
        optimizer.zero_grad()
        cross_entropy(network(batch), targets).backward()
        optimizer.step()
    return network


def evaluate(network, training, validation, test):
    options = {"test_loader": test, "progress": False}
    ranked = bln_search.evaluate_configurations(network, training, validation, blends=[0.5], **options)
    _, tuned = bln_search.fine_tune(network, "TTFF", training, validation, learning_rate=0.01, epochs=1, **options)
    layers = bln_search.search_layers(network, training, validation, **options)
    noisy = bln_search.corrupt(validation[0][0], "gaussian_noise", severity=3)
    tables = {"row": ranked, "fine-tuned row": tuned.after}
    return {
        **{key: value for name, table in tables.items() for key, value in list_rows(name, table)},
        **{f"layers {row.configuration}": row.loss for row in layers.result.rows},
        "corrupted mean and deviation": [noisy.mean().item(), noisy.std().item()],
    }


def list_rows(name, table):
    """The state and the losses of each row, by its key."""
    for record in table.to_records():
        key = (record["configuration"], record["population"], str(record["batch_size"]))
        yield " ".join(filter(None, [name, *key])), [record[column] for column in _COLUMNS]
