"""Pages of trials: the list with its filters, and why a trial ended."""

from __future__ import annotations

import re

import pytest

from bln_search.core.enums import Scope
from bln_search.core.records import EpochRecord
from bln_search.core.states import FailureClass
from tests.support.external_results import submit
from tests.support.service_world import HTML_HEADERS, finish_trial, start_study, study


@pytest.fixture
def ada(world):
    return world.client("ada", **HTML_HEADERS)


@pytest.fixture
def mixed(world):
    """A failed study: one trial finished, one diverged, one failed."""
    arms = "[{method: bln}, {method: bn, name: other}]"
    study_id = world.queue.submit_study(study("mixed", seeds=(0, 1), arms=arms, epochs=4), "ada").study_id
    world.ledger.studies.lease_and_start(study_id, lambda _: True, "host/1/0")
    finished, diverged, failed, second_failed = world.ledger.trials.list_claimable_trials(study_id)
    finish_trial(world.ledger, finished)
    attempts = world.ledger.attempts
    token = attempts.claim_trial(diverged.id, "host/1/0")
    attempts.record_epochs(token, [EpochRecord(1, 0.5, 0.6, 0.7, 0.8, 0.01)])
    attempts.record_divergence(token, "epoch 2: the training loss is not finite")
    for trial in (failed, second_failed):
        token = attempts.claim_trial(trial.id, "host/1/0")
        attempts.record_failure(token, FailureClass.USER_ERROR, "`backward` is missing <here>", again=False)
    world.ledger.studies.finish_run(study_id, runner="host/1/0")
    return study_id, {"finished": finished.id, "diverged": diverged.id, "failed": failed.id}


def listed(page):
    """Return the ids of the trials of a list."""
    return [int(trial_id) for trial_id in re.findall(r'<tr id="trial-(\d+)"', page)]


def test_marks_of_the_study_lead_to_the_trials(ada, mixed):
    study_id, ids = mixed
    page = ada.get(f"/studies/{study_id}").text
    for state, trial_id in ids.items():
        assert re.search(rf'<a id="trial-{trial_id}" href="/studies/{study_id}/trials/{trial_id}"', page)
        assert ada.get(f"/studies/{study_id}/trials/{trial_id}").text.count(state) >= 2


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("diverged", "epoch 2: the training loss is not finite"),
        ("failed", "<code>backward</code> is missing &lt;here&gt;"),
    ],
)
def test_reason_is_text_on_list_and_page(ada, mixed, state, reason):
    study_id, ids = mixed
    assert reason in ada.get(f"/studies/{study_id}/trials?state={state}").text
    page = ada.get(f"/studies/{study_id}/trials/{ids[state]}").text
    assert f'<p class="cause">{reason}</p>' in page


def test_attempt_of_a_diverged_trial_is_no_success(world, ada, mixed):
    study_id, ids = mixed
    page = ada.get(f"/studies/{study_id}/trials/{ids['diverged']}").text
    attempts = page[page.index('id="attempts"') :]
    assert "state-diverged" in attempts[: attempts.index("</table>")]
    assert "succeeded" not in page
    (attempt,) = world.client("ada").get(f"/api/v1/studies/{study_id}/trials/{ids['diverged']}").json()["attempts"]
    assert (attempt["state"], attempt["failure"]) == ("diverged", None)


def test_trials_of_a_cancelled_study_are_cancelled(world, ada):
    study_id = world.queue.submit_study(study("stopped"), "ada").study_id
    world.queue.cancel(study_id)
    first, second = (trial.id for trial in world.ledger.trials.list_trials(study_id))
    path = f"/studies/{study_id}/trials"
    assert listed(ada.get(f"{path}?state=cancelled").text) == [first, second]
    assert listed(ada.get(f"{path}?state=waiting").text) == []
    assert "state-cancelled" in ada.get(f"{path}/{first}").text
    assert (
        f'id="trial-{first}" href="{path}/{first}" class="cell state-cancelled"' in ada.get(f"/studies/{study_id}").text
    )
    response = world.client("ada").get(f"/api/v1{path}", params={"state": "cancelled"})
    assert [trial["state"] for trial in response.json()["items"]] == ["cancelled", "cancelled"]


def test_external_network_has_no_epochs_and_no_curve(world, ada):
    study_id = submit(world.ledger, "external", owner="ada").study_id
    path = f"/studies/{study_id}/trials"
    assert "<progress" not in ada.get(path).text
    trial_id = world.ledger.trials.list_trials(study_id)[0].id
    page = ada.get(f"{path}/{trial_id}").text
    assert "<dt>Epochs" not in page
    assert 'data-name="curve"' not in page


def test_page_of_a_trial_has_its_own_events_only(world, ada, mixed):
    study_id, ids = mixed
    lines = re.findall(r"<li value=.*?</li>", ada.get(f"/studies/{study_id}/trials/{ids['diverged']}").text, re.DOTALL)
    events = world.ledger.events.list_events(study_id, trial_id=ids["diverged"])
    assert [int(re.search(r'value="(\d+)"', line)[1]) for line in lines] == [event.number for event in events]
    assert "trial diverged" in lines[-1]


def test_filters_of_the_list_stay_in_its_links(ada, world, mixed, monkeypatch):
    monkeypatch.setattr("service.pages.trials._PAGE_SIZE", 1)
    study_id, ids = mixed
    first = ada.get(f"/studies/{study_id}/trials?state=failed").text
    assert listed(first) == [ids["failed"]]
    following = re.search(r'rel="next" href="([^"]+)"', first)[1].replace("&amp;", "&")
    assert "state=failed" in following
    second = ada.get(following).text
    assert listed(second) == [ids["failed"] + 1]
    assert 'rel="next"' not in second
    assert listed(ada.get(f"/studies/{study_id}/trials?state=failed&arm=other").text) == [ids["failed"] + 1]
    assert "No trial fits" in ada.get(f"/studies/{study_id}/trials?state=waiting").text


def test_only_failed_trials_of_failed_studies_can_be_retried(world, ada, mixed):
    study_id, ids = mixed
    assert world.ledger.study_lists.find_study_item(study_id).state == "failed"
    offered = {
        state
        for state, trial_id in ids.items()
        if 'id="retry"' in ada.get(f"/studies/{study_id}/trials/{trial_id}").text
    }
    assert offered == {"failed"}
    reader = world.client("ada", Scope.READ, **HTML_HEADERS)
    assert 'id="retry"' not in reader.get(f"/studies/{study_id}/trials/{ids['failed']}").text


def test_banner_leads_to_the_unusable_trials(ada, mixed):
    page = ada.get(f"/studies/{mixed[0]}").text
    assert f'<a href="/studies/{mixed[0]}/trials?state=diverged">1 diverged</a>' in page
    assert f'<a href="/studies/{mixed[0]}/trials?state=failed">2 failed</a>' in page


def test_curve_of_a_trial_is_drawn_or_explained(ada, mixed):
    study_id, ids = mixed
    drawn = ada.get(f"/studies/{study_id}/trials/{ids['finished']}/curve.json").json()
    assert [len(trace["y"]) for trace in drawn["figure"]["data"]] == [2, 2]
    assert len(ada.get(f"/studies/{study_id}/trials/{ids['finished']}/curve.csv").text.splitlines()) > 2
    empty = ada.get(f"/studies/{study_id}/trials/{ids['failed']}/curve.json").json()
    assert empty["figure"] is None
    assert ada.get(f"/studies/{study_id}/trials/{ids['failed']}/curve.csv").status_code == 404


def test_trials_of_other_accounts_are_not_shown(world, mixed):
    bob = world.client("bob", **HTML_HEADERS)
    for path in ("", f"/{mixed[1]['failed']}", f"/{mixed[1]['failed']}/curve.json"):
        assert bob.get(f"/studies/{mixed[0]}/trials{path}").status_code == 404


def test_device_and_peak_memory_of_a_trial_are_shown(world, ada):
    study_id, (first, second) = start_study(world.ledger, "gpus", "ada")
    on_gpu = {"device": "cuda:3", "hardware": "NVIDIA H100", "training_peak_memory": 1_500_000_000}
    finish_trial(world.ledger, first, provenance=on_gpu, peak_memory=2_500_000_000)
    finish_trial(world.ledger, second, provenance={"device": "cpu", "hardware": "AMD EPYC"})
    page = ada.get(f"/studies/{study_id}/trials/{first.id}").text
    assert "<dd>cuda:3 (NVIDIA H100)</dd>" in page
    assert "1.5 GB in training, 2.5 GB in evaluation" in page
    page = ada.get(f"/studies/{study_id}/trials/{second.id}").text
    assert "<dd>cpu (AMD EPYC)</dd>" in page
    assert "GPU memory" not in page
    rows = ada.get(f"/studies/{study_id}/trials").text
    assert "cuda:3, 1.5 GB" in rows
    (checkpoint,) = [
        item["checkpoint"]
        for item in world.client("ada").get(f"/api/v1/studies/{study_id}/trials").json()["items"]
        if item["id"] == first.id
    ]
    assert checkpoint["provenance"] == {**on_gpu, "evaluation_peak_memory": 2_500_000_000}
