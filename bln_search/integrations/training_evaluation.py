"""The core of the callbacks for trainers: when a network is evaluated, and what becomes of the result."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal, Unpack

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bln_search.api.check.check import check, require_statistics_layers
from bln_search.api.check.report import CheckReport
from bln_search.api.evaluate import EvaluationOptions, evaluate_configurations
from bln_search.api.inputs.evaluation_data import parse_condition_loaders
from bln_search.api.inputs.loaders import Loader
from bln_search.api.inputs.score import parse_score
from bln_search.api.networks import state_fingerprint
from bln_search.core.errors import ModelError
from bln_search.evaluation.network_state import is_lazy_network
from bln_search.integrations.applied_choice import AppliedChoice
from bln_search.integrations.loader_copies import copy_loader, read_first_batch
from bln_search.integrations.ranked_metrics import Ranked, flatten_ranked
from bln_search.integrations.undisturbed import convert_unless_converted, undisturbed_training
from bln_search.norms.network.layers import get_norms_by_name

OnError = Literal["warn", "raise"]

Splits = tuple[Loader, Loader | Mapping[str, Loader]]
"""Training and validation mini-batches, the latter possibly of several conditions by name."""


class TrainingEvaluation:
    """Evaluates a network between the epochs of its training and at the end, without a change of the training.

    A network that was not converted is converted by `same` for the evaluation alone: what is evaluated are the
    configurations of its BatchNorm and LayerNorm layers.

    Args:
        every: Evaluate after each `every` epochs, and at the end; None for the end alone.
        with_check: Run `bln_search.check` too, for networks whose layers store statistics.
        on_error: `warn`: an evaluation that fails is a warning, and the training goes on. `raise`: it is an error.
        options: Of `evaluate_configurations`; `score`, `forward` and `target` are those of `check` too.

    Attributes:
        ranked: The ranked table of the latest evaluation; None before the first one.
        report: The report of the latest check; None without one.
        history: The metrics of each evaluation, with its epoch (the number of finished epochs).
        error: Why the latest evaluation failed; None if it did not.
        is_possible: Whether the network of this training has layers to evaluate.

    Raises:
        ValueError: An argument is invalid.
        TypeError: An argument has a wrong type.
    """

    def __init__(
        self,
        every: int | None = None,
        *,
        with_check: bool = False,
        on_error: OnError = "warn",
        **options: Unpack[EvaluationOptions],
    ) -> None:
        if every is not None and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
            raise ValueError(f"every is a number of epochs of at least 1, or None for the end alone, not {every!r}")
        if on_error not in ("warn", "raise"):
            raise ValueError(f'on_error is "warn" or "raise", not {on_error!r}')
        unknown = sorted(options.keys() - EvaluationOptions.__annotations__.keys())
        if unknown:
            raise TypeError(f"{unknown[0]} is no argument of evaluate_configurations")
        parse_score(options.get("score", "cross_entropy"))
        self._every, self._with_check, self._on_error, self._options = every, with_check, on_error, options
        self.ranked: Ranked | None = None
        self.report: CheckReport | None = None
        self.history: list[dict[str, float]] = []
        self.error: Exception | None = None
        self._evaluated: str | None = None
        self._batch_sizes: dict[str, int | None] = {}
        self.is_possible = True

    def start(self, network: nn.Module, make_splits: Callable[[], Splits], *, refusal: str | None = None) -> None:
        """Begin a training: report now what an evaluation would report at its end.

        There may be no layers to evaluate or to check, or another refusal; the training then has no evaluation. Or the
        evaluation fails for the first mini-batches, which are read where that changes nothing. A lazy network has its
        layers with its first mini-batch: nothing is reported of it.
        """
        self._evaluated, self.is_possible = None, False
        network = _unwrap(network)
        with self.reported_errors("cannot evaluate this network"), undisturbed_training(network):
            if refusal is not None:
                raise ModelError(refusal)
            if self._with_check:
                require_statistics_layers(network)
            if is_lazy_network(network):
                self.is_possible = True
                return
            convert_unless_converted(network)
            self.is_possible = True
            self._try_first_batches(network, *make_splits())

    @property
    def is_evaluated(self) -> bool:
        """Whether the latest evaluation of this training succeeded."""
        return self._evaluated is not None

    def is_due(self, epochs: int) -> bool:
        """Whether to evaluate after this number of finished epochs."""
        return self.is_possible and self._every is not None and epochs > 0 and epochs % self._every == 0

    def is_due_at_end(self, network: nn.Module) -> bool:
        """Whether to evaluate at the end: not without values, or after an evaluation with the present ones."""
        return self.is_possible and self._evaluated != _fingerprint(_unwrap(network))

    def evaluate(self, network: nn.Module, make_splits: Callable[[], Splits], epochs: int) -> dict[str, float]:
        """Evaluate the network, and return the metrics by name; none if the evaluation fails.

        Args:
            network: The network, in any mode.
            make_splits: Returns the loaders, which are copied before they are read.
            epochs: The number of finished epochs.
        """
        network, problem = _unwrap(network), f"could not evaluate the network after epoch {epochs}"
        self._evaluated, fingerprint = None, _fingerprint(network)
        with self.reported_errors(problem), undisturbed_training(network):
            train_loader, validation_loader = make_splits()
            self._evaluate(network, copy_loader(train_loader), _copy_loaders(validation_loader))
            assert self.ranked is not None
            metrics = flatten_ranked(self.ranked)
            self._evaluated = fingerprint
            self.history.append({"epoch": epochs, **metrics})
            return metrics
        return {}

    def choose_recommended(self) -> AppliedChoice | None:
        """What `apply` applies; None if the latest evaluation failed or there was none."""
        if self.ranked is None or not self.is_evaluated:
            return None
        with self.reported_errors("could not choose a configuration"):
            return AppliedChoice(self.ranked.recommended, self._batch_sizes)
        return None

    def apply(self, network: nn.Module, choice: AppliedChoice | None) -> None:
        """Convert the network if necessary, and apply a choice, of this process or another one."""
        if choice is None:
            return
        with self.reported_errors("could not apply the recommended configuration"):
            choice.apply_to(_unwrap(network))

    def _evaluate(
        self, network: nn.Module, train_loader: Loader, validation_loader: Loader | Mapping[str, Loader]
    ) -> None:
        if self._with_check:
            self.report = self._check(network, train_loader, validation_loader)
        network = convert_unless_converted(network)
        self.ranked = evaluate_configurations(network, train_loader, validation_loader, **self._options)
        self._batch_sizes = {name: layer.batch_size for name, layer in get_norms_by_name(network).items()}

    def _try_first_batches(
        self, network: nn.Module, train_loader: Loader, validation_loader: Loader | Mapping[str, Loader]
    ) -> None:
        """Evaluate with a mini-batch of each loader. Figures of the untrained network mean nothing, nor do warnings."""
        loader, _ = next(iter(parse_condition_loaders(validation_loader, None).values()))
        training, validation = read_first_batch(train_loader), read_first_batch(loader)
        if training is None or validation is None:
            return
        options: EvaluationOptions = {**self._options, "batch_sizes": None, "stop": None, "progress": False}
        with warnings.catch_warnings(action="ignore"):
            evaluate_configurations(network, [training], [validation], **options)

    def _check(
        self, network: nn.Module, train_loader: Loader, validation_loader: Loader | Mapping[str, Loader]
    ) -> CheckReport:
        conditions = dict(validation_loader) if isinstance(validation_loader, Mapping) else {"": validation_loader}
        return check(
            network,
            train_loader,
            conditions.pop(next(iter(conditions))),
            conditions=conditions,
            score=self._options.get("score", "cross_entropy"),
            forward=self._options.get("forward"),
            target=self._options.get("target"),
            progress=self._options.get("progress", True),
        )

    @contextmanager
    def reported_errors(self, problem: str) -> Iterator[None]:
        """Turn an error into a warning, unless errors are to be raised. The message begins with `problem`."""
        self.error = None
        try:
            yield
        except Exception as error:
            if self._on_error == "raise":
                raise
            _forget_frames(error)
            self.error = error
            warnings.warn(
                f"bln-search {problem}; the training goes on ({type(error).__name__}: {error})",
                stacklevel=4,
            )


def _forget_frames(error: BaseException | None) -> None:
    """Drop the tracebacks of an error and of its causes, which keep mini-batches in memory."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def _unwrap(network: nn.Module) -> nn.Module:
    """The network of this process inside of DistributedDataParallel."""
    return network.module if isinstance(network, DistributedDataParallel) else network


def _fingerprint(network: nn.Module) -> str | None:
    """What changes when a network is trained; None for a lazy network before its first mini-batch."""
    return None if is_lazy_network(network) else state_fingerprint(network)


def _copy_loaders(loader: Loader | Mapping[str, Loader]) -> Loader | Mapping[str, Loader]:
    if isinstance(loader, Mapping):
        return {name: copy_loader(each) for name, each in loader.items()}
    return copy_loader(loader)
