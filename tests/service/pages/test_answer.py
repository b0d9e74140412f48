"""The answer on the page of a study: the recommended row, what is known about it, and what stands in its place."""

from __future__ import annotations

import shlex
from html import unescape
from urllib.parse import urlsplit

import pytest
from sqlalchemy import update

from bln_search.core.configuration_explanation import explain_configuration
from bln_search.core.enums import Scope
from bln_search.core.states import TrialState
from bln_search.ranking.comparison import Verdict
from bln_search.specs import parse_study
from bln_search.storage.engine import write_session
from bln_search.storage.tables import StudyRow, TrialRow
from bln_search.worker.analysis import compute_and_store_analysis
from tests.support.external_results import submit
from tests.support.service_world import HTML_HEADERS, STUDIES, finish_trial, study
from tests.support.shifted_study import CONDITIONS, complete_shifted_study


@pytest.fixture
def ada(world):
    return world.client("ada", Scope.WRITE, **HTML_HEADERS)


def set_state(world, number, state, reason=None):
    with write_session(world.ledger.database.engine) as session:
        session.execute(update(StudyRow).where(StudyRow.id == number).values(state=state, reason=reason))


def heartbeat(world):
    world.ledger.workers.record_heartbeat("host/1/0", "cpu", "0")


@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)])
def test_overview_and_list_show_the_recommended_row(world, ada, seeds):
    number = world.complete(seeds=seeds)
    analysis = compute_and_store_analysis(world.ledger, number, None)
    recommended = analysis.recommendation
    page = ada.get(f"/studies/{number}").text
    answer = page[page.index('<div class="answer">') : page.index("</div>", page.index('<div class="answer">'))]
    assert f"<b>{recommended.configuration}</b>" in answer
    explanation = explain_configuration(recommended.key.configuration, recommended.estimate)
    assert answer.index(explanation) < answer.index(recommended.configuration)
    assert f'data-verdict="{recommended.verdict}"' in answer
    assert ("outputs are independent of the mini-batch" in answer) == recommended.deterministic
    required = analysis.comparison.required
    may_be_decided = required is None or required.seeds is not None or len(seeds) == 1
    is_open = recommended.verdict is Verdict.CANNOT_TELL and may_be_decided
    assert (f"/studies/{number}/repeat?seeds=" in answer) == is_open
    assert f"/configurations/{recommended.configuration}?" in ada.get(f"/studies/best?study={number}").text
    assert "data-later" not in ada.get(f"/studies/{number}/parts/answer").text


def test_conditions_decide_on_every_page_and_over_rest(world, ada):
    number = complete_shifted_study(world.ledger)
    recommendation = compute_and_store_analysis(world.ledger, number, None).recommendation
    answer = ada.get(f"/studies/{number}/parts/answer").text
    assert "<b>FT--</b>" in answer
    assert (
        f"<dt>Worst validation loss</dt><dd>{recommendation.loss:.4f}, the highest loss under {CONDITIONS[0]}" in answer
    )
    assert "<dt>Validation loss (clean)</dt>" in answer
    assert f"{recommendation.ranking_loss_above_best:.4f} above the lowest" in answer
    assert "/configurations/FT--?" in ada.get(f"/studies/best?study={number}").text
    assert "<b>By the worst validation loss" in ada.get(f"/studies/{number}/leaderboard").text
    body = ada.get(f"{STUDIES}/{number}/analysis", headers={"Accept": "application/json"}).json()
    assert body["analysis"]["recommendation"]["configuration"] == "FT--"
    assert "worst validation loss" in body["sentences"][0]


def test_answer_is_requested_again_until_the_analysis_exists(world, ada):
    number = world.complete()
    assert "data-later" in ada.get(f"/studies/{number}/parts/answer").text
    compute_and_store_analysis(world.ledger, number, None)
    assert "data-later" not in ada.get(f"/studies/{number}/parts/answer").text


def test_running_study_has_no_recommendation_yet(world, ada):
    number = world.queue.submit_study(study("half"), "ada").study_id
    world.ledger.studies.lease_and_start(number, lambda _: True, "host/1/0")
    for trial in world.ledger.trials.list_claimable_trials(number):
        finish_trial(world.ledger, trial)
    answer = ada.get(f"/studies/{number}/parts/answer").text
    assert "provisional" in answer
    assert "data-later" not in answer


@pytest.mark.parametrize(
    ("trial_states", "kind"),
    [
        ((TrialState.DIVERGED, TrialState.DIVERGED), "unusable"),
        ((TrialState.FINISHED, TrialState.FAILED), "gaps"),
    ],
)
def test_complete_study_without_usable_networks_says_so(world, ada, trial_states, kind):
    number = world.queue.submit_study(study("poor"), "ada").study_id
    set_state(world, number, "complete")
    with write_session(world.ledger.database.engine) as session:
        for seed, state in enumerate(trial_states):
            values = {"state": state.value, "reason": f"seed {seed}: the loss is not finite"}
            session.execute(update(TrialRow).where(TrialRow.study_id == number, TrialRow.seed == seed).values(values))
    page = ada.get(f"/studies/{number}").text
    assert f'class="banner {kind}"' in page
    assert "bln seed 1: " in page
    assert "seed 1: the loss is not finite" in page
    assert "as trials end" not in page


def test_failed_study_shows_its_reason_first(world, ada):
    number = world.queue.submit_study(study("broken"), "ada").study_id
    set_state(world, number, "failed", "the data set is missing: run `bln-search data fetch mnist` <b>")
    page = ada.get(f"/studies/{number}").text
    assert "<code>bln-search data fetch mnist</code> &lt;b&gt;" in page
    assert page.index("banner failed") < page.index('id="answer"')
    assert f'href="/studies/{number}/repeat"' in page


def test_waiting_study_without_a_worker_says_so_to_everybody(world, ada):
    number = world.queue.submit_study(study("waiting"), "ada").study_id
    assert "banner worker" in ada.get(f"/studies/{number}").text
    heartbeat(world)
    assert "banner worker" not in ada.get(f"/studies/{number}").text


def test_study_is_repeated_with_more_seeds(world, ada):
    number = world.queue.submit_study(study("again", seeds=(0, 2)), "ada").study_id
    page = ada.get(f"/studies/{number}/repeat?seeds=3").text
    text = unescape(page[page.index("<textarea") : page.index("</textarea>")].split(">", 1)[1])
    assert parse_study(text).seeds == (0, 2, 1, 3, 4)
    assert parse_study(text).model_copy(update={"seeds": (0, 2)}).digest == study("again", seeds=(0, 2)).digest
    assert ada.get(f"/studies/{number}/repeat?seeds=-1").status_code == 422
    assert world.client("bob", Scope.WRITE, **HTML_HEADERS).get(f"/studies/{number}/repeat").status_code == 404


def test_row_is_fine_tuned_in_a_new_study(world, ada):
    number = world.queue.submit_study(study("again", seeds=(0, 2)), "ada").study_id
    address = f"/studies/{number}/fine-tune?arm=bln&configuration="
    page = ada.get(f"{address}TTFF").text
    text = unescape(page[page.index("<textarea") : page.index("</textarea>")].split(">", 1)[1])
    before, after = parse_study(text).arms
    assert (before.label, after.label) == ("bln", "bln-tuned")
    assert before.fine_tune is None
    assert str(after.fine_tune.configuration) == "TTFF"
    assert parse_study(text).seeds == (0, 2)
    assert ada.get(f"{address}XXXX").status_code == 404
    assert world.client("bob", Scope.WRITE, **HTML_HEADERS).get(f"{address}TTFF").status_code == 404


def test_study_file_is_the_submitted_study(world, ada):
    number = world.queue.submit_study(study("file"), "ada").study_id
    response = ada.get(f"/studies/{number}/study.yaml")
    assert response.headers["content-type"].startswith("application/yaml")
    assert parse_study(response.text).digest == study("file").digest


def test_code_of_a_row_selects_that_row(world, ada):
    number = world.complete(seeds=(0, 1, 2))
    page = ada.get(f"/studies/{number}/configurations/TTFF").text
    blocks = [unescape(part.split("</code>")[0]) for part in page.split('<code id="use-')[1:]]
    codes = dict(block.split('">', 1) for block in blocks)
    assert set(codes) == {"network", "export", "client", "rest"}
    command = shlex.split(codes["export"])
    assert command[:3] == ["bln-search", "export", str(number)]
    assert command[command.index("--config") + 1] == "TTFF"
    address = urlsplit(shlex.split(codes["rest"])[-1])
    rows = ada.get(f"{address.path}?{address.query}", headers={"Accept": "application/json"}).json()["rows"]
    assert "TTFF" in {row["configuration"] for row in rows}
    for name in ("network", "client"):
        compile(codes[name], name, "exec")


def test_external_results_offer_neither_training_nor_export(world, ada):
    number = submit(world.ledger, networks=3).study_id
    compute_and_store_analysis(world.ledger, number, None)
    page = ada.get(f"/studies/{number}").text
    assert 'class="answer"' in page
    assert "/repeat" not in page
    assert "study.yaml" not in page
    assert 'id="use-export"' not in ada.get(f"/studies/{number}/configurations/TTFF").text
    for path in ("/repeat", "/study.yaml"):
        assert ada.get(f"/studies/{number}{path}").status_code == 409
