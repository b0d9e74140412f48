"""Networks of a study measured beside its leaderboard after it was run, from their checkpoints."""

from __future__ import annotations

from collections.abc import Callable

from bln_search.core.errors import DataError
from bln_search.core.words import ProbeKind
from bln_search.search.place import Place, prepared_data
from bln_search.search.probes import probe_trial
from bln_search.search.trial import build_network
from bln_search.specs.study import ProbesSpec
from bln_search.storage.ledger import Ledger
from bln_search.storage.probes import keep_probes
from bln_search.storage.trained import trained_trials
from bln_search.training.checkpoint import load_weights, read_checkpoint
from bln_search.training.seeding import repeatable


def probe_study(ledger: Ledger, study_id: int, place: Place, asked: ProbesSpec, say: Callable[[str], None]) -> int:
    """Measure every trained network of the study and write the figures down, trial by trial; returns how many.

    Figures of the same kind that were there before are replaced. say: told of every trial. Raises DataError where
    nothing is trained yet, or a checkpoint is not on this machine.
    """
    trained = trained_trials(ledger.engine, study_id)
    if not trained:
        raise DataError("the study has no trained network yet: run it first")
    kinds = _kinds(asked)
    measured = 0
    for done, one in enumerate(trained, start=1):
        trial = one.spec
        weights, gathered = read_checkpoint(place.checkpoints / one.checkpoint.file, one.checkpoint.sha256)
        with repeatable(trial.seed, threads=place.threads):
            data = prepared_data(trial.data, place.data, place.cache, place.device)
            network = build_network(trial, data).to(place.device)
            load_weights(network, weights)
            probes = probe_trial(trial, asked, network, gathered, one.checkpoint.snapshots, data, place)
        keep_probes(ledger.engine, one.id, one.checkpoint.sha256, kinds, probes)
        measured += len(probes)
        say(f"{trial.label}: {len(probes)} figures ({done}/{len(trained)})")
    return measured


def _kinds(asked: ProbesSpec) -> set[ProbeKind]:
    kinds = {ProbeKind.SIZE} if asked.batch_sizes else set()
    kinds |= {ProbeKind.RESHUFFLED, ProbeKind.SKEWED} if asked.reshuffles else set()
    return kinds | ({ProbeKind.EPOCH} if asked.epochs is not None else set())
