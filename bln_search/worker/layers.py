"""Per-layer configurations of the networks of a study, searched from their checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from bln_search.core.errors import DataError, ModelError
from bln_search.core.layer_search import LayerSums
from bln_search.core.words import LayerSearch, PopulationEstimate, Split
from bln_search.data import PreparedData
from bln_search.evaluation.batches import MiniBatch, mini_batches
from bln_search.evaluation.memory import MEMORY_LIMIT
from bln_search.evaluation.tree.evaluator import Asked, TreeEvaluator
from bln_search.evaluation.tree.sums import Sums
from bln_search.norms.finding import find_norms, network_populations
from bln_search.search.layers.run import Plan, fold_of, search_network
from bln_search.search.layers.strategies import Options
from bln_search.search.place import Place
from bln_search.search.restored import Restored, restored
from bln_search.specs.layers import LayersSpec
from bln_search.specs.trial import TrialSpec
from bln_search.storage.layers import find_progress, is_searched, keep_progress, keep_search
from bln_search.storage.ledger import Ledger
from bln_search.storage.trained import TrainedTrial, trained_trials

_WRITTEN_EVERY = 20.0
"""Seconds between two times that an enumeration is written down."""


def search_layers(
    ledger: Ledger,
    study_id: int,
    place: Place,
    asked: LayersSpec,
    say: Callable[[str], None],
    *,
    stopping: Callable[[], bool] = lambda: False,
) -> int:
    """Search every trained network that has not been searched this way yet; returns how many were searched.

    say: told of every network, and of enumerations under way. stopping: looked at between groups of mini-batches; what
    is added up by then is kept, and StoppedError raised. Raises DataError where nothing is trained yet or a checkpoint
    is not on this machine; and, when all others are searched, ModelError where a network cannot be cut at its layers.
    """
    trained = trained_trials(ledger.engine, study_id)
    if not trained:
        raise DataError("the study has no trained network yet: run it first")
    searched, problems = 0, list[str]()
    for done, one in enumerate(trained, start=1):
        if is_searched(ledger.engine, one.id, asked):
            continue
        started = time.monotonic()
        try:
            with restored(one.spec, one.checkpoint, place) as found:
                progress = _Progress(ledger, one, asked, say, stopping)
                _search(ledger, one, asked, found, progress)
        except ModelError as error:
            problems.append(f"{one.spec.label}: {error}")
            say(problems[-1])
            continue
        searched += 1
        say(f"{one.spec.label}: layers searched in {time.monotonic() - started:.1f} s ({done}/{len(trained)})")
    if problems:
        raise ModelError(f"the layers of {len(problems)} of {len(trained)} networks were not searched: {problems[0]}")
    return searched


class StoppedError(Exception):
    """The search was asked to stop; what it had added up is kept."""


def estimate_of(trial: TrialSpec, asked: LayersSpec) -> PopulationEstimate:
    """Where population values come from."""
    return asked.estimate or trial.estimates[0]


def _search(ledger: Ledger, one: TrainedTrial, asked: LayersSpec, found: Restored, progress: _Progress) -> None:
    trial = one.spec
    batches = _batches(found.data, Split.VALIDATION, trial.training.batch_size)
    folds = fold_of(len(batches), asked.folds)
    evaluation = trial.evaluation
    populations = network_populations(
        find_norms(found.network), found.gathered, evaluation.correction, per_slot=evaluation.per_slot
    )
    question = Asked(
        estimate=estimate_of(trial, asked), scope=asked.scope, groups=asked.groups or {}, memory_limit=MEMORY_LIMIT
    )
    evaluator = TreeEvaluator(found.network, batches, populations, question, folds=folds)
    record = search_network(
        evaluator,
        folds,
        Plan(asked.search, asked.evaluations, asked.keep, Options(asked.width, asked.restarts, trial.seed)),
        test=_batches(found.data, Split.TEST, trial.training.batch_size) if Split.TEST in found.data.splits else None,
        sums=progress.begun(),
        keep=progress.keep if asked.search is LayerSearch.EXACT else None,
    )
    keep_search(ledger.engine, one.id, one.checkpoint.sha256, asked, record, ledger.clock())


def _batches(data: PreparedData, split: Split, size: int) -> Sequence[MiniBatch]:
    return list(mini_batches(*data.splits[split], size))


class _Progress:
    """An enumeration under way: written down now and then, told of, stopped where that is asked for."""

    def __init__(
        self,
        ledger: Ledger,
        one: TrainedTrial,
        asked: LayersSpec,
        say: Callable[[str], None],
        stopping: Callable[[], bool],
    ) -> None:
        self.ledger, self.one, self.asked, self.say, self.stopping = ledger, one, asked, say, stopping
        self.started = self.written = time.monotonic()
        self.first = 0

    def begun(self) -> Sums | None:
        """What an earlier worker had added up."""
        found = find_progress(self.ledger.engine, self.one.id, self.asked)
        if found is None:
            return None
        sums, self.first = found
        return Sums(sums.losses, sums.correct, sums.examples, self.first)

    def keep(self, sums: Sums) -> None:
        """Behind each group of mini-batches."""
        now = time.monotonic()
        stop = self.stopping()
        if now - self.written >= _WRITTEN_EVERY or stop:
            self.written = now
            kept = LayerSums(None, sums.losses, sums.correct, sums.examples)
            one, clock = self.one, self.ledger.clock()
            keep_progress(self.ledger.engine, one.id, one.checkpoint.sha256, self.asked, kept, sums.done, clock)
            self.say(f"{one.spec.label}: {sums.done} of {sums.total} mini-batches{self._left(sums, now)}")
        if stop:
            raise StoppedError

    def _left(self, sums: Sums, now: float) -> str:
        done = sums.done - self.first
        if done < 1:
            return ""
        return f", about {(now - self.started) / done * (sums.total - sums.done):.0f} s left"
