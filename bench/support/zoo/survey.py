"""Survey of `bench.zoo`: which networks of other libraries `convert` takes, and whether their evaluation is exact."""

from __future__ import annotations

import multiprocessing
import signal
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor, nn

from bench.support.reporting import finish
from bench.support.zoo.comparison import Prepared, collect_warnings, compare_rows, convert_in_place
from bench.support.zoo.networks import Examples
from bench.support.zoo.surveyed import Surveyed, surveyed_networks
from bln_search.api.convert import convert
from bln_search.core.errors import BlnSearchError, ModelError
from bln_search.norms.network.layers import get_norms_by_name

BATCH_SIZE, BATCHES = 4, 2
"""Mini-batch size, and number of mini-batches for training and for validation."""

LARGEST = 13_000_000
"""Largest number of parameters of a network that is evaluated."""

QUICK = ("convnext", "efficientnet", "vision_transformer", "mobilenet_v3_small", "r3d_18", "bert", "llama")
"""Families of the quick survey."""

KEPT = "normalization layers that are not replaced"
"""Beginning of the warning about layers that a conversion does not replace."""


class TimeLimitError(BaseException):
    """A network takes too long. No Exception, because the evaluation reports those as errors of the network."""


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


def survey_evaluation(subject: Surveyed, seconds: float) -> dict[str, Any]:
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
            prepared, pixels = _prepare(subject)
            changed = convert_in_place(prepared.network, prepared.validation[0][0])
            result |= {"pixels": pixels, "changed": changed, "one_pass": True}
            try:
                rows = compare_rows(prepared)
            except BlnSearchError as error:
                result |= {"one_pass": False, "refusal": _first_line(error)}
                rows = compare_rows(prepared, one_pass=False)
    except Exception as error:  # noqa: BLE001 - a network that cannot be evaluated is a result of the survey
        return {**result, "failed": _first_line(error)}
    except TimeLimitError:
        return {**result, "failed": f"it takes more than {seconds:g} s of processor time"}
    ill_conditioned = rows["ill_conditioned"].values()
    return {
        **result,
        "rows": rows["rows"],
        "losses": rows["losses"],
        "ill_conditioned": len(ill_conditioned),
        "ill_conditioned_losses": max(ill_conditioned, default=0.0),
    }


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
def _prepare(subject: Surveyed) -> tuple[Prepared, int | None]:
    """Return a network in evaluation mode after passes in training mode, with its data, and the side of the images."""
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
        return Prepared(network, training, validation), pixels
    assert failure is not None
    raise failure


def _fill_zero_heads(network: nn.Module) -> None:
    """Give linear layers that start at zero weights of usual size: their outputs would hide differences."""
    for module in network.modules():
        if isinstance(module, nn.Linear) and not module.weight.any():
            nn.init.normal_(module.weight, std=module.in_features**-0.5)


def _draw(subject: Surveyed, pixels: int | None, output: Tensor) -> Examples:
    targets = torch.randint(0, output.shape[1], (BATCH_SIZE, *output.shape[2:]))
    return subject.draw(BATCH_SIZE, pixels), targets


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"


def survey_networks(subjects: Iterable[Surveyed], seconds: float) -> list[dict[str, Any]]:
    """Convert all networks and evaluate the small ones among those that are converted, in a process of its own."""
    entries = []
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for subject in subjects:
            entry: dict[str, Any] = {"library": subject.library, "network": subject.name, "family": subject.family}
            start = time.monotonic()
            entry |= pool.apply(survey_conversion, (subject,))
            is_converted = entry["status"] in ("converted", "partly converted")
            if is_converted and subject.is_evaluated and entry["parameters"] <= LARGEST:
                entry["evaluation"] = pool.apply(survey_evaluation, (subject, seconds))
            print(f"{summary_line(entry)}  {time.monotonic() - start:.0f} s", flush=True)
            entries.append(entry)
    return entries


def summary_line(entry: dict[str, Any]) -> str:
    """Return a line of the printed table."""
    line = f"{entry['library']:12} {entry['family']:28} {entry['status']:22} {entry.get('layers', ''):18}"
    evaluation = entry.get("evaluation")
    if evaluation is None:
        return f"{line} {entry['reason'] or ''}"
    if "failed" in evaluation:
        return f"{line} {evaluation['failed']}"
    how = "one pass" if evaluation["one_pass"] else "one by one"
    return (
        f"{line} {how} {evaluation['rows']} rows {evaluation['losses']:.0e} changed {evaluation['changed']:.0e} "
        f"ill-conditioned {evaluation['ill_conditioned']} {evaluation.get('refusal', '')[:120]}"
    )


def summarize_survey(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the numbers of networks by library and status, and the largest differences."""
    libraries = dict.fromkeys(entry["library"] for entry in entries)
    statuses = {
        library: dict(Counter(entry["status"] for entry in entries if entry["library"] == library))
        for library in libraries
    }
    evaluations = [entry["evaluation"] for entry in entries if "evaluation" in entry]
    done = [evaluation for evaluation in evaluations if "failed" not in evaluation]
    in_one_pass = [evaluation for evaluation in done if evaluation["one_pass"]]
    return {
        "networks": len(entries),
        "statuses": statuses,
        "evaluated": len(done),
        "in_one_pass": len(in_one_pass),
        "failed": [entry["network"] for entry in entries if "failed" in entry.get("evaluation", {})],
        "rows": sum(evaluation["rows"] for evaluation in done),
        "ill_conditioned_rows": sum(evaluation["ill_conditioned"] for evaluation in done),
        "max_change_by_conversion": max((evaluation["changed"] for evaluation in done), default=0.0),
        "max_relative_difference_of_losses": max((evaluation["losses"] for evaluation in in_one_pass), default=0.0),
    }


def run_survey(*, seconds: float, quick: bool, save: bool) -> None:
    """Convert and evaluate the networks of the survey, each in a limited processor time, and print the result."""
    subjects = (subject for subject in surveyed_networks() if not quick or subject.family in QUICK)
    print("library, network, conversion, layers; evaluation: rows, largest difference of losses from a plain loop,")
    print("change of the outputs by the conversion, ill-conditioned rows")
    entries = survey_networks(subjects, seconds)
    result = {
        **summarize_survey(entries),
        "batch_size": BATCH_SIZE,
        "batches": BATCHES,
        "seconds": seconds,
        "largest": LARGEST,
        "versions": {name: version(name) for name in ("timm", "torchvision", "transformers")},
        "entries": entries,
    }
    finish("zoo_survey", result, save=save)
