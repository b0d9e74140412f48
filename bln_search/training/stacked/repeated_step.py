"""A step that is taken many times: by Python, or recorded once as a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable

import torch

_WARM_UP = 3
"""Steps before the recording, in which libraries choose their kernels and allocate memory."""


def repeat_step(take_step: Callable[[], None], device: torch.device, *, records: bool) -> Callable[[int], None]:
    """Return a function that takes a number of steps.

    Args:
        take_step: Takes a step. What it reads and writes are the same tensors in each step.
        device: Of the tensors.
        records: Record the step on a GPU and run the record: one launch for all operations of a step.
    """
    if records and device.type == "cuda":
        return RecordedStep(take_step, device).repeat

    def repeat(steps: int) -> None:
        for _ in range(steps):
            take_step()

    return repeat


class RecordedStep:
    """A step that is recorded as a CUDA graph after a few steps.

    Args:
        take_step: Takes a step.
        device: A GPU.
    """

    def __init__(self, take_step: Callable[[], None], device: torch.device) -> None:
        self._take_step, self._device = take_step, device
        self._graph: torch.cuda.CUDAGraph | None = None
        self._num_taken = 0

    def repeat(self, steps: int) -> None:
        """Take a number of steps."""
        while steps and self._num_taken < _WARM_UP:
            self._take_step_in_other_stream()
            steps -= 1
        if steps and self._graph is None:
            self._graph = self._record()
        for _ in range(steps):
            assert self._graph is not None
            self._graph.replay()

    def _take_step_in_other_stream(self) -> None:
        """Take a step as torch's documentation of CUDA graphs describes it for the steps before a recording."""
        stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            self._take_step()
        torch.cuda.current_stream(self._device).wait_stream(stream)
        self._num_taken += 1

    def _record(self) -> torch.cuda.CUDAGraph:
        """Return the record of a step; recording takes none."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._take_step()
        return graph
