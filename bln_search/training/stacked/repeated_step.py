"""A step that is taken many times: by Python, or recorded once as a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable

import torch

_WARM_UP = 3
"""Steps before the recording, in which libraries choose their kernels and allocate memory."""


class StepRunner:
    """A step that Python takes each time."""

    def repeat(self, take_step: Callable[[], None], steps: int) -> None:
        """Take a number of steps."""
        for _ in range(steps):
            take_step()


class CudaGraphStepRunner(StepRunner):
    """A step that is recorded as a CUDA graph after a few steps: then one launch takes a step.

    Args:
        device: A GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._graph: torch.cuda.CUDAGraph | None = None
        self._num_taken = 0

    def repeat(self, take_step: Callable[[], None], steps: int) -> None:
        """Take a number of steps. take_step: the same in each call; it reads and writes the same tensors each time."""
        while steps and self._num_taken < _WARM_UP:
            self._take_step_in_other_stream(take_step)
            self._num_taken += 1
            steps -= 1
        if steps and self._graph is None:
            self._graph = self._record(take_step)
        for _ in range(steps):
            assert self._graph is not None
            self._graph.replay()

    def _take_step_in_other_stream(self, take_step: Callable[[], None]) -> None:
        """Take a step as torch's documentation of CUDA graphs describes it for the steps before a recording."""
        stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            take_step()
        torch.cuda.current_stream(self._device).wait_stream(stream)

    def _record(self, take_step: Callable[[], None]) -> torch.cuda.CUDAGraph:
        """Return the record of a step; recording takes none."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            take_step()
        return graph
