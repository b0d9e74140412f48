"""Passes that begin with the state that a network and the random generators had before an evaluation.

Each row of a table is evaluated as if it ran alone, and the network has its state again afterwards.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from bln_search.core.errors import ModelError
from bln_search.evaluation.network_state import NetworkState, are_equal_states, is_lazy_network


class RandomState:
    """The state of the global random generators of torch, NumPy and Python."""

    def __init__(self) -> None:
        self._cpu = torch.get_rng_state()
        self._gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
        self._numpy, self._python = np.random.get_state(legacy=False), random.getstate()

    @property
    def is_current(self) -> bool:
        """Whether the generators still have this state."""
        present = RandomState()
        return (
            torch.equal(self._cpu, present._cpu)
            and all(map(torch.equal, self._gpus, present._gpus))
            and self._python == present._python
            and are_equal_states(self._numpy, present._numpy)
        )

    def restore(self) -> None:
        """Give the generators this state again."""
        torch.set_rng_state(self._cpu)
        if self._gpus:
            torch.cuda.set_rng_state_all(self._gpus)
        np.random.set_state(self._numpy)
        random.setstate(self._python)


class IsolatedPasses:
    """Runs the passes of several rows over the mini-batches of a split, each row as if it ran alone.

    Args:
        network: in the state in which each row begins.
        random_state: in which each row begins; None for the present one.

    Attributes:
        random_state: in which each row begins.
        changes_state: whether a pass changed the state of the network.
        draws_numbers: whether a pass drew from a global random generator.
    """

    def __init__(self, network: nn.Module, random_state: RandomState | None = None) -> None:
        self._network = network
        self._start, self.random_state = NetworkState(network), random_state or RandomState()
        self._later: dict[Hashable, tuple[NetworkState | None, RandomState]] = {}
        self.changes_state = self.draws_numbers = False
        self._compares_values = True

    @contextmanager
    def pass_of_row(self, row: Hashable, *, is_continued: bool = False) -> Iterator[None]:
        """In this context a pass of a row begins with its state; the state before the context is restored.

        Args:
            row: the row.
            is_continued: begin where the last continued pass of this row ended; otherwise at the start.
        """
        outside = RandomState()
        start = None, self.random_state
        network_state, random_state = self._later.get(row, start) if is_continued else start
        if network_state is not None:
            network_state.restore()
        random_state.restore()
        compares_values, self._compares_values = self._compares_values, False  # of the first pass alone, for their time
        values = _describe_parameters(self._network, with_values=compares_values)
        try:
            yield
            _check_no_parameter_was_written(
                self._network, values, _describe_parameters(self._network, with_values=compares_values)
            )
        finally:
            is_changed, is_random = not self._start.is_current, not random_state.is_current
            self.changes_state, self.draws_numbers = self.changes_state or is_changed, self.draws_numbers or is_random
            if is_continued:
                self._later.pop(row, None)
                if is_changed or not self.random_state.is_current:
                    self._later[row] = NetworkState(self._network) if is_changed else None, RandomState()
            if is_changed:
                self._start.restore()
            outside.restore()

    def forget_continued_passes(self, row: Hashable) -> None:
        """Let the next continued pass of a row begin at the start."""
        self._later.pop(row, None)


class OwnRandomNumbers:
    """Draws of passes that neither change those of others, as of a loader, nor depend on them.

    They begin in the present state of the global generators. Passes that draw nothing at first cost nothing later.
    """

    def __init__(self) -> None:
        self._state, self._remaining_trials = RandomState(), 4

    @contextmanager
    def used_here(self) -> Iterator[None]:
        """Draw the next numbers in this context."""
        if not self._remaining_trials:
            yield
            return
        outside = RandomState()
        self._state.restore()
        try:
            yield
        finally:
            is_deterministic, self._state = self._state.is_current, RandomState()
            self._remaining_trials -= is_deterministic
            outside.restore()


@contextmanager
def restored_network(network: nn.Module, *, with_random_state: bool = True) -> Iterator[None]:
    """Restore the state of a network and, if asked, of the global random generators at the end of this context."""
    state, generators = NetworkState(network), RandomState()
    try:
        yield
    finally:
        state.restore()
        if with_random_state:
            generators.restore()


@contextmanager
def untouched_networks(networks: Sequence[nn.Module]) -> Iterator[None]:
    """Restore the state of networks at the end of this context, with the attributes of their normalization layers."""
    states = [NetworkState(network, with_norms=True) for network in networks]
    try:
        yield
    finally:
        for state in states:
            state.restore()


def _describe_parameters(network: nn.Module, *, with_values: bool) -> dict[str, tuple[int, str]]:
    """Return for each parameter what differs after it was written; writes to its `.data` are seen by values alone."""
    return {
        name: (0 if x.is_inference() else x._version, _sum_values(x.detach()) if with_values else "")
        for name, x in network.named_parameters()
        if not is_lazy(x)
    }


def _sum_values(x: Tensor) -> str:
    return "" if x.is_meta else str((x.abs() if x.is_complex() else x).double().sum().item())


def _check_no_parameter_was_written(
    network: nn.Module, before: Mapping[str, tuple[int, str]], after: Mapping[str, tuple[int, str]]
) -> None:
    written = next((name for name, value in before.items() if after.get(name, value) != value), None)
    if written is not None and not is_lazy_network(network):
        raise ModelError(
            f"a forward pass in evaluation mode changes the parameter {written}, which is not restored, so rows do not "
            "have the same weights: let it change a buffer, or nothing"
        )
