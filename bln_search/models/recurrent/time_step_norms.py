"""Normalization at every time step of a recurrent layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from bln_search.core.configuration import training_configuration_of
from bln_search.core.errors import ModelError
from bln_search.models.recurrent.present_examples import normalize_present_examples
from bln_search.norms.normalization import Normalization
from bln_search.norms.row_batching.row_tensor import RowBatchedTensor

Norm = Callable[[int], nn.Module]
"""Makes a normalization layer for a number of features."""

REFUSE, LAST_TIME_STEP = LONGER_SEQUENCES = ("refuse", "last_time_step")
"""What happens at time steps after those for which a layer was built."""


class TimeStepNorms(nn.Module):
    """One normalization layer for each time step, with separate statistics and shared γ and β.

    γ and β are the same Parameter objects in every step, so an optimizer updates them once.

    A method whose statistics are those of an example alone (LN with the configuration `--FF`, or no normalization)
    stores nothing for a time step and takes sequences of any length. Other methods and configurations have statistics
    of each step. At later steps they are refused, or take the population values of the last step.

    Args:
        norm: makes a normalization layer for a number of features.
        features: number of features.
        steps: number of time steps.
        gain: initial value of γ; Cooijmans et al. use 0.1 for batch normalization, so that tanh is not saturated.
        longer_sequences: at time steps after `steps`, `refuse` or `last_time_step`. Statistics of the mini-batch are
            then those of the mini-batch at that step. Values of later steps do not change the population of the last
            one.

    Source: Cooijmans, Ballas, Laurent, Gülçehre & Courville 2017, Recurrent Batch Normalization, section 3.
    """

    def __init__(
        self, norm: Norm, features: int, steps: int, *, gain: float = 1.0, longer_sequences: str = REFUSE
    ) -> None:
        super().__init__()
        if steps < 1:
            raise ModelError(f"normalization inside a recurrent layer needs at least one time step, not {steps}")
        if not 0 < gain < float("inf"):
            raise ModelError(f"the initial gain of a normalization layer must be finite and above 0, not {gain}")
        if longer_sequences not in LONGER_SEQUENCES:
            raise ModelError(f"longer_sequences must be {' or '.join(LONGER_SEQUENCES)}, not {longer_sequences!r}")
        self.longer_sequences = longer_sequences
        self.of_step = nn.ModuleList(norm(features) for _ in range(steps))
        shared = dict(self.of_step[0].named_parameters(recurse=False))
        for layer in self.of_step:
            for name, parameter in shared.items():
                setattr(layer, name, parameter)
        if "weight" in shared:
            nn.init.constant_(shared["weight"], gain)

    def forward(self, x: Tensor, step: int, present: Tensor | None = None) -> Tensor:
        """Normalize `x` (N, features) at a time step, counted from 0.

        Args:
            x: (N, features).
            step: index of the time step.
            present: (N,), the examples whose statistics count, see `normalize_present_examples`; None for all.

        Raises:
            ModelError: there are no statistics for this step, see `check_steps`.
        """
        if step < 0:
            raise ModelError(f"time steps are counted from 0, there is no step {step}")
        if step < len(self.of_step):
            return _normalize_present_or_all(self.of_step[step], x, present)
        self.check_steps(step + 1, x)
        with _disable_recording(self.of_step[-1]):
            return _normalize_present_or_all(self.of_step[-1], x, present)

    def check_steps(self, steps: int, x: Tensor) -> None:
        """Raise ModelError where a sequence of this many steps needs statistics that this layer does not have.

        Args:
            steps: number of time steps of the sequence.
            x: a tensor of the forward pass; that of a one-pass evaluation has the configurations of its rows.
        """
        if steps > len(self.of_step) and self.longer_sequences == REFUSE and self._has_statistics_of_steps(x):
            raise ModelError(
                f"{self._name_of_method} has statistics for the {len(self.of_step)} time steps for which this layer "
                f"was built, the sequence has {steps}: use shorter sequences, build the layer for longer ones, or set "
                f"longer_sequences to {LAST_TIME_STEP} for the statistics of the last step"
            )

    @property
    def _name_of_method(self) -> str:
        layer = self.of_step[-1]
        return str(layer.method) if isinstance(layer, Normalization) else type(layer).__name__

    def _has_statistics_of_steps(self, x: Tensor) -> bool:
        """Return whether this forward pass reads or collects statistics of each time step."""
        layer = self.of_step[-1]
        if not isinstance(layer, Normalization):
            return next(layer.buffers(), None) is not None  # running statistics
        if layer.has_batch_statistics:
            return True
        if isinstance(x, RowBatchedTensor):
            configurations = [
                row.configuration.restricted_to_statistics_of(layer.method) for row in x.batch_layout.plan.rows
            ]
        elif layer.training:
            configurations = [layer.training_configuration or training_configuration_of(layer.method)]
        else:
            configurations = [layer.configuration]
        return any(configuration.uses_population for configuration in configurations)


def _normalize_present_or_all(layer: nn.Module, x: Tensor, present: Tensor | None) -> Tensor:
    normalized: Tensor = layer(x) if present is None else normalize_present_examples(layer, x, present)
    return normalized


@contextmanager
def _disable_recording(layer: nn.Module) -> Iterator[None]:
    """In this context the layer adds nothing to its population estimates."""
    if not isinstance(layer, Normalization) or not (layer.training or layer.accumulators):
        yield
        return
    accumulators, records_history = layer.accumulators, layer.records_history
    layer.accumulators, layer.records_history = [], False
    try:
        yield
    finally:
        layer.accumulators, layer.records_history = accumulators, records_history
