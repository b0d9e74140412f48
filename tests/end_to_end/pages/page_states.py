"""Studies in every state that the web pages show, written into the database of a service without a worker."""

from __future__ import annotations

from types import SimpleNamespace

from bln_search.core.records import EpochRecord
from bln_search.core.states import FailureClass
from bln_search.worker.analysis import compute_and_store_analysis
from tests.ranking.layers import per_layer_result
from tests.support.external_results import submit
from tests.support.sampled_study import complete_sampled_study
from tests.support.service_world import RUNNER, complete_study, finish_trial, start_study, study
from tests.support.shifted_study import complete_shifted_study
from tests.support.study_streams import SECTIONS, study_streams
from tests.support.then_trained_study import complete_then_trained_study

ACCOUNT = "admin"
LONG_NAME = "long-name_" + "abcdefgh-" * 6
LONG_TITLE = "A title of three hundred letters with Donaudampfschifffahrtsgesellschaftskapitaen " * 3
NOTES = "# Head\n\n**Strong** text, `code`, and a table:\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n" + "x" * 200
BAD_LOSS = "epoch 3: the training loss is not finite"


def create_studies(ledger):
    """Create one study of each state; return their ids by a name for the state."""
    return {state: create(ledger) for state, create in _STATES.items()}


def _waiting(ledger):
    return ledger.queue.submit_study(study("waiting"), ACCOUNT).study_id


def _paused(ledger):
    study_id = ledger.queue.submit_study(study("paused"), ACCOUNT).study_id
    ledger.queue.pause(study_id)
    return study_id


def _running(ledger):
    study_id, trials = start_study(ledger, "running", ACCOUNT, seeds=(0, 1, 2), epochs=20)
    finish_trial(ledger, trials[0])
    token = ledger.attempts.claim_trial(trials[1].id, RUNNER)
    epochs = [EpochRecord(epoch, 0.5 / epoch, 0.6, 0.7 / epoch, 0.8, 0.01) for epoch in range(1, 8)]
    ledger.attempts.record_epochs(token, epochs)
    return study_id


def _all_diverged(ledger):
    study_id, trials = start_study(ledger, "all-diverged", ACCOUNT)
    for trial in trials:
        ledger.attempts.record_divergence(ledger.attempts.claim_trial(trial.id, RUNNER), BAD_LOSS)
    ledger.studies.finish_run(study_id, runner=RUNNER)
    compute_and_store_analysis(ledger, study_id, None)
    return study_id


def _failed(ledger):
    study_id, trials = start_study(ledger, "failed", ACCOUNT, seeds=(0, 1, 2))
    finish_trial(ledger, trials[0])
    ledger.attempts.record_divergence(ledger.attempts.claim_trial(trials[1].id, RUNNER), BAD_LOSS)
    token = ledger.attempts.claim_trial(trials[2].id, RUNNER)
    ledger.attempts.record_failure(token, FailureClass.USER_ERROR, "`backward` is missing " * 6, again=False)
    ledger.studies.finish_run(study_id, runner=RUNNER)
    return study_id


def _expand_shorthand(ledger, name="complete", **options):
    study_id = complete_study(ledger, name, ACCOUNT, **options)
    compute_and_store_analysis(ledger, study_id, None)
    return study_id


def _per_layer(ledger):
    study_id = _expand_shorthand(ledger, "per-layer", seeds=(0, 1, 2))
    analysis = ledger.analyses.find_current_analysis(study_id).analysis
    searched = analysis.model_copy(update={"layers": (per_layer_result(56), per_layer_result(4))})
    ledger.analyses.save(study_id, ledger.analyses.count_trials_with_result(study_id), searched)
    return study_id


def _streams(ledger):
    study_id = _expand_shorthand(ledger, "streams", **SECTIONS)
    analysis = ledger.analyses.find_current_analysis(study_id).analysis
    ranked = analysis.model_copy(update={"streams": study_streams()})
    ledger.analyses.save(study_id, ledger.analyses.count_trials_with_result(study_id), ranked)
    return study_id


def _cancelled(ledger):
    study_id = ledger.queue.submit_study(study("cancelled"), ACCOUNT).study_id
    ledger.queue.cancel(study_id)
    return study_id


def _cancelling(ledger):
    study_id, trials = start_study(ledger, "cancelling", ACCOUNT, seeds=(0, 1))
    finish_trial(ledger, trials[0])
    ledger.queue.cancel(study_id)
    return study_id


def _external(ledger):
    study_id = submit(ledger, "external", owner=ACCOUNT).study_id
    compute_and_store_analysis(ledger, study_id, None)
    return study_id


def _long_names(ledger):
    arms = f"[{{method: bln, name: {'a' * 32}}}, {{method: ln, name: {'b' * 32}}}]"
    study_id = _expand_shorthand(ledger, LONG_NAME, arms=arms, conditions="[fog-2, {name: dim, corruption: contrast}]")
    tags = [f"tag-{number}-{'x' * 20}" for number in range(20)]
    ledger.queue.update_study_metadata(study_id, {"title": LONG_TITLE[:300], "tags": tags, "notes": NOTES})
    return study_id


def _shifted(ledger):
    study_id = complete_shifted_study(ledger, ACCOUNT)
    compute_and_store_analysis(ledger, study_id, None)
    return study_id


def _sampled(ledger):
    study_id = complete_sampled_study(SimpleNamespace(ledger=ledger), "sampled")
    compute_and_store_analysis(ledger, study_id, None)
    return study_id


def _then_trained(ledger):
    study_id = complete_then_trained_study(ledger, "then-trained", ACCOUNT)
    compute_and_store_analysis(ledger, study_id, None)
    return study_id


_STATES = {
    "waiting": _waiting,
    "paused": _paused,
    "running": _running,
    "complete": lambda ledger: _expand_shorthand(ledger, seeds=(0, 1, 2)),
    "one-seed": lambda ledger: _expand_shorthand(ledger, "one-seed", seeds=(0,)),
    "several-sizes": lambda ledger: _expand_shorthand(
        ledger, "several-sizes", arms="[{method: bln}, {method: ln}]", batch_sizes="[5, 9, 8]"
    ),
    "conditions": lambda ledger: _expand_shorthand(
        ledger,
        "conditions",
        seeds=(0, 1, 2),
        arms="[{method: bln}, {method: ln}]",
        batch_sizes="[5, 9]",
        conditions="[fog-2, gaussian_noise-3, {name: dim, corruption: contrast}]",
    ),
    "shifted": _shifted,
    "all-diverged": _all_diverged,
    "cancelled": _cancelled,
    "cancelling": _cancelling,
    "failed": _failed,
    "per-layer": _per_layer,
    "streams": _streams,
    "long-names": _long_names,
    "sampled": _sampled,
    "then-trained": _then_trained,
    "external": _external,
}
