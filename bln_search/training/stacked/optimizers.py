"""The optimizers of several networks as one, with hyper-parameters of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from bln_search.training.stacked.parameters import SharedParameterStack
from bln_search.training.stacked.step_tables import StepTables

_RATES, _ROOTS = "learning rates", "roots of bias corrections"


class StackedOptimizer(ABC):
    """Updates the parameters of K networks.

    What the optimizers of the networks keep for each parameter becomes a view of the tensors (K, P) here.

    Args:
        optimizers: Of the networks, of one type, each with one group of parameters.
        parameters: Of the networks.
        tables: Of the steps.
    """

    state_names: tuple[str, ...]
    """Names of the tensors that torch's optimizer keeps for each parameter."""

    def __init__(
        self, optimizers: Sequence[torch.optim.Optimizer], parameters: SharedParameterStack, tables: StepTables
    ) -> None:
        self._optimizers, self._parameters, self._tables = optimizers, parameters, tables
        self._state = {name: torch.zeros_like(parameters.values) for name in self.state_names}
        for name, tensor in self._state.items():
            for index, parameter, view in parameters.iter_tensor_parts_by_parameter(tensor):
                state = optimizers[index].state[parameter]
                if state.get(name) is not None:
                    view.copy_(state[name])
                state[name] = view
        self._weight_decays = self._option("weight_decay")

    @abstractmethod
    def begin_epoch(self, rates: Tensor) -> None:
        """Prepare the steps of an epoch. rates: learning rates (steps, K), float64, on the CPU."""

    @abstractmethod
    def update_parameters(self, gradients: Tensor) -> None:
        """Make a step. gradients: (K, P), those of the weight decay included."""

    @abstractmethod
    def end_epoch(self) -> None:
        """Make the optimizers of the networks ready to go on alone."""

    def copy_state(self) -> dict[str, Tensor]:
        """Return copies of the state tensors, for `restore_state`."""
        return {name: tensor.clone() for name, tensor in self._state.items()}

    def restore_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `copy_state` returned, before the end of an epoch."""
        for name, tensor in state.items():
            self._state[name].copy_(tensor)

    def take_step(self, gradients: Tensor) -> None:
        """Make the present step of the tables. gradients: (K, P)."""
        if self._weight_decays is not None:
            gradients = gradients.addcmul(self._parameters.values, self._weight_decays)
        self.update_parameters(gradients)

    def _option(self, name: str) -> Tensor | None:
        """Return an option of each optimizer as a column (K, 1); None where all are zero."""
        values = [float(optimizer.param_groups[0][name]) for optimizer in self._optimizers]
        return self._to_columns(torch.tensor(values, dtype=torch.float64)) if any(values) else None

    def _to_columns(self, values: Tensor) -> Tensor:
        """Return values (..., K) as columns (..., K, 1) on the device and in the dtype of the parameters."""
        return values.unsqueeze(-1).to(self._parameters.values)


class StackedAdam(StackedOptimizer):
    """Adam, as `torch.optim.Adam`; the networks may have made different numbers of steps.

    Source: Kingma & Ba 2015, Algorithm 1.
    """

    state_names = ("exp_avg", "exp_avg_sq")

    def __init__(
        self, optimizers: Sequence[torch.optim.Optimizer], parameters: SharedParameterStack, tables: StepTables
    ) -> None:
        super().__init__(optimizers, parameters, tables)
        self._epsilons = self._option("eps")
        self._beta1, self._beta2 = optimizers[0].param_groups[0]["betas"]
        self._num_steps = [self._read_num_steps(optimizer) for optimizer in optimizers]
        self.end_epoch()  # an optimizer that has state without a number of steps cannot go on alone

    @staticmethod
    def _read_num_steps(optimizer: torch.optim.Optimizer) -> int:
        state = next(iter(optimizer.state.values()))
        return int(state["step"]) if "step" in state else 0

    def begin_epoch(self, rates: Tensor) -> None:
        """As described; the bias corrections of all steps are computed here."""
        first = torch.tensor(self._num_steps, dtype=torch.float64)
        counts = first + torch.arange(1, len(rates) + 1, dtype=torch.float64).unsqueeze(1)
        self._tables.write(_RATES, self._to_columns(-rates / (1 - self._beta1**counts)))
        self._tables.write(_ROOTS, self._to_columns((1 - self._beta2**counts).sqrt()))
        self._num_steps = [number + len(rates) for number in self._num_steps]

    def update_parameters(self, gradients: Tensor) -> None:
        """θ ← θ − α/(1 − β₁ᵗ)·m / (√v/√(1 − β₂ᵗ) + ε)."""
        means, squares = self._state["exp_avg"], self._state["exp_avg_sq"]
        means.lerp_(gradients, 1 - self._beta1)
        squares.mul_(self._beta2).addcmul_(gradients, gradients, value=1 - self._beta2)
        divisors = squares.sqrt().div_(self._tables.read(_ROOTS))
        if self._epsilons is not None:
            divisors.add_(self._epsilons)
        self._parameters.values.addcmul_(means / divisors, self._tables.read(_RATES))

    def end_epoch(self) -> None:
        """Set the number of steps of the optimizers of the networks."""
        for number, optimizer in zip(self._num_steps, self._optimizers, strict=True):
            for state in optimizer.state.values():
                state["step"] = torch.tensor(float(number), device=self._parameters.values.device)


class StackedSGD(StackedOptimizer):
    """Gradient descent with momentum, as `torch.optim.SGD`."""

    state_names = ("momentum_buffer",)

    def __init__(
        self, optimizers: Sequence[torch.optim.Optimizer], parameters: SharedParameterStack, tables: StepTables
    ) -> None:
        super().__init__(optimizers, parameters, tables)
        self._momenta = self._option("momentum")

    def begin_epoch(self, rates: Tensor) -> None:
        """As described."""
        self._tables.write(_RATES, self._to_columns(-rates))

    def update_parameters(self, gradients: Tensor) -> None:
        """v ← μ·v + g, θ ← θ − α·v."""
        if self._momenta is not None:
            gradients = self._state["momentum_buffer"].mul_(self._momenta).add_(gradients)
        self._parameters.values.addcmul_(gradients, self._tables.read(_RATES))

    def end_epoch(self) -> None:
        """Do nothing: the momenta are those of the networks."""


def stack_optimizers(
    optimizers: Sequence[torch.optim.Optimizer], parameters: SharedParameterStack, tables: StepTables
) -> StackedOptimizer:
    """Return an optimizer for all networks. optimizers: all `torch.optim.Adam`, or all `torch.optim.SGD`."""
    kind = StackedAdam if isinstance(optimizers[0], torch.optim.Adam) else StackedSGD
    return kind(optimizers, parameters, tables)
