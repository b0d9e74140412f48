"""Conversion and evaluation of a network of the survey of `bench.zoo`."""

from __future__ import annotations

import signal
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from bench.support.relative_difference import largest_relative_difference
from bench.support.zoo.comparison import collect_warnings, find_ill_conditioned, losses_in, plain_losses, score
from bench.support.zoo.networks import Examples
from bench.support.zoo.survey_subjects import Surveyed
from bln_search.api.convert import convert
from bln_search.api.evaluate import evaluate_configurations
from bln_search.core.errors import BatchDependenceWarning, BlnSearchError, ModelError
from bln_search.norms.network.layers import get_norms_by_name

BATCH_SIZE, BATCHES = 4, 2
"""Mini-batch size, and number of mini-batches for training and for validation."""

SECONDS = 30
"""Limit of the processor time for the evaluation of a network."""

KEPT = "normalization layers that are not replaced"
"""Beginning of the warning about layers that a conversion does not replace."""


class SingleOutput(nn.Module):
    """A network with one output (n, classes, ...), multiplied by `factor`."""

    factor: Tensor

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("factor", torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        """Return the output tensor of the network: scores of classes, of `logits` or of `out` where it has several."""
        output = self.network(x)
        if hasattr(output, "logits"):
            output = output.logits
            output = output.movedim(-1, 1) if output.ndim == 3 else output
        elif isinstance(output, dict):
            output = output["out"]
        elif isinstance(output, tuple | list):
            output = output[0]
        scaled: Tensor = output * self.factor
        return scaled


def survey_conversion(subject: Surveyed) -> dict[str, Any]:
    """Return whether the network is converted with equal outputs, and why not; without memory for its weights."""
    try:
        network = _build_on_meta(subject)
    except Exception as error:  # noqa: BLE001 - a network that cannot be built is a result of the survey
        return {"status": "not built", "reason": _first_line(error)}
    size = {"parameters": sum(parameter.numel() for parameter in network.parameters())}
    with collect_warnings() as messages:
        try:
            converted = convert(network, method="same")
        except ModelError as error:
            status = "refused" if "; it has" in str(error) else "no normalization layer"
            return {**size, "status": status, "reason": str(error)}
    counts = Counter(layer.method.value.upper() for layer in get_norms_by_name(converted).values())
    layers = " + ".join(f"{count} {method}" for method, count in sorted(counts.items()))
    kept = next((message for message in messages if message.startswith(KEPT)), None)
    return {**size, "status": "partly converted" if kept else "converted", "layers": layers, "reason": kept}


def survey_evaluation(subject: Surveyed, seconds: float = SECONDS) -> dict[str, Any]:
    """Return the differences of the one-pass evaluation from a plain loop; or why it does not evaluate the network.

    Args:
        subject: The network.
        seconds: Limit of the processor time.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    result: dict[str, Any] = {}
    try:
        with _limited_time(seconds):
            network, training, validation, pixels = _prepare(subject)
            result |= {"pixels": pixels, "changed": _convert_in_place(network, validation[0][0]), "one_pass": True}
            try:
                return {**result, **_compare(network, training, validation, one_pass=True)}
            except BlnSearchError as error:
                result |= {"one_pass": False, "refusal": _first_line(error)}
            return {**result, **_compare(network, training, validation, one_pass=False)}
    except Exception as error:  # noqa: BLE001 - a network that cannot be evaluated is a result of the survey
        return {**result, "failed": _first_line(error)}
    except TimeLimitError:
        return {**result, "failed": f"it takes more than {seconds} s of processor time"}


@contextmanager
def _limited_time(seconds: float) -> Iterator[None]:
    """Raise TimeLimitError in this context after a limit of processor time."""
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, signal.SIG_IGN)  # by default a late signal would end the process


class TimeLimitError(BaseException):
    """A network takes too long. No Exception, because the evaluation reports those as errors of the network."""


def _stop(*_: Any) -> None:
    raise TimeLimitError


def _build_on_meta(subject: Surveyed) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with torch.device("meta"):
                return subject.build()
        except (RuntimeError, NotImplementedError):
            return subject.build()  # RegNet of torchvision reads values of tensors


@torch.no_grad()
def _prepare(subject: Surveyed) -> tuple[nn.Module, list[Examples], list[Examples], int | None]:
    """Return a network in evaluation mode after passes in training mode, mini-batches, and the side of the images."""
    failure: Exception | None = None
    for pixels in subject.sizes:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                network = SingleOutput(subject.build(pixels))
                _fill_zero_heads(network)
                output = network.eval()(subject.draw(2, pixels))
                training, validation = ([_draw(subject, pixels, output) for _ in range(BATCHES)] for _ in range(2))
                network.train()
                for inputs, _ in training:
                    network(inputs)
                deviation = network.eval()(validation[0][0]).std()
            except (RuntimeError, ValueError, AssertionError, IndexError, TypeError) as error:
                failure = error
                continue
        if deviation > 0:
            network.factor.fill_(1 / deviation)
        return network, training, validation, pixels
    assert failure is not None
    raise failure


@torch.no_grad()
def _convert_in_place(network: nn.Module, inputs: Tensor) -> float:
    """Convert a network in place; return the relative difference of its outputs."""
    before = network(inputs).numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        convert(network, method="same")
    return largest_relative_difference(network(inputs).numpy(), before)


def _fill_zero_heads(network: nn.Module) -> None:
    """Give linear layers that start at zero weights of usual size: their outputs would hide differences."""
    for module in network.modules():
        if isinstance(module, nn.Linear) and not module.weight.any():
            nn.init.normal_(module.weight, std=module.in_features**-0.5)


def _draw(subject: Surveyed, pixels: int | None, output: Tensor) -> Examples:
    targets = torch.randint(0, output.shape[1], (BATCH_SIZE, *output.shape[2:]))
    return subject.draw(BATCH_SIZE, pixels), targets


def _compare(
    network: nn.Module, training: list[Examples], validation: list[Examples], *, one_pass: bool
) -> dict[str, Any]:
    """Compare the losses of all rows with those of a plain loop."""
    with collect_warnings() as messages:
        ranked = evaluate_configurations(network, training, validation, score=score, one_pass=one_pass)
    in_double = find_ill_conditioned(messages)
    double_validation = [(_to_double(inputs), targets) for inputs, targets in validation]
    differences, differences_in_double = [0.0], [0.0]
    for choice in ranked:
        label = " ".join(filter(None, (str(choice.configuration), choice.row.estimate)))
        is_in_double = label in in_double
        copy, batches = (
            (deepcopy(network).double(), double_validation) if is_in_double else (deepcopy(network), validation)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BatchDependenceWarning)
            plain = plain_losses(copy, choice, batches)
        difference = largest_relative_difference(losses_in(ranked, choice), plain)
        (differences_in_double if is_in_double else differences).append(difference)
    return {
        "rows": len(ranked),
        "losses": max(differences),
        "ill_conditioned": len(in_double),
        "ill_conditioned_losses": max(differences_in_double),
    }


def _to_double(inputs: Tensor) -> Tensor:
    return inputs.double() if inputs.is_floating_point() else inputs


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
