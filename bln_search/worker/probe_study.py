"""Networks of a study measured beside its leaderboard after it was run, from their checkpoints."""

from __future__ import annotations

from collections.abc import Callable

from bln_search.core.enums import ProbeKind
from bln_search.core.errors import DataError
from bln_search.execution.environment import Place
from bln_search.execution.loaded_network import restored
from bln_search.execution.trial_probes import probe_trial
from bln_search.specs.study import ProbesSpec
from bln_search.storage.ledger import Ledger
from bln_search.storage.probes import keep_probes
from bln_search.storage.trained import trained_trials


def probe_study(ledger: Ledger, study_id: int, place: Place, asked: ProbesSpec, say: Callable[[str], None]) -> int:
    """Measure every trained network of the study and write the figures down, trial by trial; returns how many.

    Figures of the same kind that were there before are replaced. say: told of every trial. Raises DataError where
    nothing is trained yet, or a checkpoint is not on this machine.
    """
    every = trained_trials(ledger.engine, study_id)
    trained = [one for one in every if one.kept]
    if len(trained) < len(every):
        say(f"{len(every) - len(trained)} networks were given up to free room and are passed over")
    if not trained:
        raise DataError("the study has no trained network yet: run it first")
    kinds = _kinds(asked)
    measured = 0
    for done, one in enumerate(trained, start=1):
        trial = one.spec
        with restored(trial, one.checkpoint, place) as found:
            snapshots = one.checkpoint.snapshots
            probes = probe_trial(trial, asked, found.network, found.gathered, snapshots, found.data, place)
        keep_probes(ledger.engine, one.id, one.checkpoint.sha256, kinds, probes)
        measured += len(probes)
        say(f"{trial.label}: {len(probes)} figures ({done}/{len(trained)})")
    return measured


def _kinds(asked: ProbesSpec) -> set[ProbeKind]:
    kinds = {ProbeKind.SIZE} if asked.batch_sizes else set()
    kinds |= {ProbeKind.RESHUFFLED, ProbeKind.SKEWED} if asked.reshuffles else set()
    return kinds | ({ProbeKind.EPOCH} if asked.epochs is not None else set())
