"""Probes the trained networks of a study after it was run, from their checkpoints."""

from __future__ import annotations

from collections.abc import Callable

from bln_search.core.enums import ProbeKind
from bln_search.core.errors import DataError
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.loaded_network import use_trained_network
from bln_search.execution.trial_evaluation import measure_trial_probes
from bln_search.specs.sections.evaluation import ProbesSpec
from bln_search.storage.ledger import Ledger
from bln_search.worker.study_code import check_code_of_study


def probe_networks_of_study(
    ledger: Ledger,
    study_id: int,
    environment: ExecutionEnvironment,
    spec: ProbesSpec,
    on_progress: Callable[[str], None],
    *,
    accept_code_change: bool = False,
) -> int:
    """Probe every trained network of a study and store the probes, trial by trial.

    Args:
        ledger: Ledger with the study.
        study_id: The study.
        environment: Where the networks are measured.
        spec: What to measure; earlier probes of the same kinds are replaced.
        on_progress: Called with a line for every trial.
        accept_code_change: Record changed code of plugins as accepted instead of raising an error.

    Returns:
        The number of probes.

    Raises:
        DataError: no network is trained, or a checkpoint is not on this machine.
        CodeChangedError: the code of a plugin is not that of the networks.
    """
    study = ledger.studies.get(study_id)
    study.check_has_no_external_results()
    trained = ledger.trials.list_finished_full_trials(study_id)
    available = [trial for trial in trained if trial.freed_at is None]
    if len(available) < len(trained):
        on_progress(
            f"{len(trained) - len(available)} networks are skipped: their checkpoints were deleted to free disk space"
        )
    if not available:
        raise DataError("the study has no trained network yet: run it first")
    check_code_of_study(ledger, study, accept_change=accept_code_change, adds_results=True)
    kinds = _probe_kinds_of_spec(spec)
    count = 0
    for number, trial in enumerate(available, start=1):
        checkpoint = trial.get_checkpoint_record()
        with use_trained_network(trial.spec, checkpoint, environment) as loaded:
            probes = measure_trial_probes(loaded, spec, environment)
        ledger.probes.replace_probes(trial.id, checkpoint.sha256, kinds, probes)
        count += len(probes)
        on_progress(f"{trial.spec.label}: {len(probes)} figures ({number}/{len(available)})")
    return count


def _probe_kinds_of_spec(spec: ProbesSpec) -> set[ProbeKind]:
    kinds = {ProbeKind.SIZE} if spec.batch_sizes else set()
    kinds |= {ProbeKind.RESHUFFLED, ProbeKind.SKEWED} if spec.reshuffles else set()
    return kinds | ({ProbeKind.EPOCH} if spec.epochs is not None else set())
