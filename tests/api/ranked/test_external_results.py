"""Ranked tables in the form in which a service takes them."""

from __future__ import annotations

import base64

import numpy as np
import pytest

import bln_search
from bln_search.core.enums import Split
from bln_search.core.errors import ModelError
from bln_search.core.records import EvaluationKey
from bln_search.storage.outcome_codec import decode_losses_and_correctness
from bln_search.storage.results.external_results import decode_results_and_list_problems
from tests.api.shifted_data import conditions, make_data, trained

TRAIN = make_data(200, 1)
VALIDATION = make_data(scale=2.0, shift=1.0)


@pytest.fixture(scope="module")
def ranked():
    networks = [trained(seed) for seed in range(2)]
    return bln_search.evaluate_configurations(
        networks, TRAIN, VALIDATION, test_loader=make_data(60, 5), batch_sizes=[4, 20], blends=["N16"]
    )


def test_results_have_every_row_and_outcome_of_each_network(ranked):
    results = ranked.to_external_results("own", title="Mine", data="shifted", model="mlp")
    assert decode_results_and_list_problems(results).problems == ()
    assert (results.name, results.title, results.data, results.model) == ("own", "Mine", "shifted", "mlp")
    assert results.examples == {Split.VALIDATION: 120, Split.TEST: 60}
    assert [network.sha256 for network in results.networks] == list(ranked.fingerprints)
    assert results.deployed.configuration == ranked.deployed.configuration
    assert len(results.evaluations) == sum(
        max(1, len(row.metrics)) for table in ranked.per_network_tables for row in table.board.rows
    )
    for evaluation in results.evaluations:
        key = EvaluationKey(evaluation.configuration, evaluation.estimate, evaluation.batch_size, evaluation.split)
        expected = ranked.of_network(evaluation.network).outcomes[key]
        n = results.examples[evaluation.split]
        outcomes = decode_losses_and_correctness(
            base64.b64decode(evaluation.losses), base64.b64decode(evaluation.correct), n
        )
        assert np.array_equal(outcomes.losses, expected.losses)
        assert np.array_equal(outcomes.correct, expected.correct)


def test_saved_table_gives_the_same_results(ranked, tmp_path):
    loaded = bln_search.load_ranked(ranked.save(tmp_path / "ranked"))
    digests = {decode_results_and_list_problems(table.to_external_results("own")).sha256 for table in (ranked, loaded)}
    assert len(digests) == 1


def test_rows_without_a_value_keep_their_reason():
    ranked = bln_search.evaluate_configurations(trained(), make_data(20, 1, size=1), VALIDATION)
    undefined = [row for row in ranked.board.rows if not row.metrics]
    results = ranked.to_external_results("own")
    reasons = [evaluation.reason for evaluation in results.evaluations if evaluation.reason]
    assert reasons == [row.reason for row in undefined]
    assert decode_results_and_list_problems(results).problems == ()


@pytest.mark.parametrize(
    ("name", "description", "words"),
    [
        ("Not a name", {}, "name"),
        ("own", {"method": "ln"}, "'ln' is not a method with the configurations"),
        ("own", {"method": "none"}, "choose one of"),
        ("own", {"network_names": ["a"]}, "each of the 2 networks"),
        ("own", {"network_names": ["a", "a"]}, "different name"),
        ("own", {"network_names": "ab"}, "network_names"),
        ("own", {"title": "x" * 301}, "title"),
    ],
)
def test_invalid_description_is_one_clear_error(ranked, name, description, words):
    with pytest.raises(ModelError, match=words):
        ranked.to_external_results(name, **description)


def test_method_can_be_named_where_several_fit(ranked):
    assert ranked.to_external_results("own").method == "bn"
    assert ranked.to_external_results("own", method="brn").method == "brn"


def test_score_without_correctness_has_its_name_and_no_accuracy():
    batches = [(x, y.float()[:, None].expand(-1, 2)) for x, y in VALIDATION]
    ranked = bln_search.evaluate_configurations(trained(), TRAIN, batches, score="mse")
    results = ranked.to_external_results("own")
    assert (results.score.name, results.score.unit, results.score.has_accuracy) == ("squared error", "", False)
    assert {evaluation.correct for evaluation in results.evaluations} == {None}
    checked = decode_results_and_list_problems(results)
    assert checked.problems == ()
    assert {submitted.evaluation.accuracy for submitted in checked.evaluations} == {None}


@pytest.fixture(scope="module")
def under_conditions():
    networks = [trained(seed) for seed in range(2)]
    validation = conditions(60) | {"Small": make_data(40, 7, scale=0.5)}
    test = {name: make_data(30, 8) for name in validation}
    return bln_search.evaluate_configurations(networks, TRAIN, validation, test_loader=test)


@pytest.mark.parametrize("ranked_under", [None, "Small"])
def test_several_conditions_are_one_study(under_conditions, ranked_under):
    results = under_conditions.to_external_results("own", title="Mine", ranked_under=ranked_under)
    ranking = ranked_under or "clean"
    others = {"clean", "large", "small", "Small"} - {ranking}
    sizes = dict.fromkeys(("clean", "large", "small"), 60) | {"Small": 40}
    assert decode_results_and_list_problems(results).problems == ()
    assert (results.title, results.ranking_condition) == ("Mine", ranking)
    assert results.examples == {Split.VALIDATION: sizes[ranking], Split.TEST: 30}
    assert results.conditions == {name: {Split.VALIDATION: sizes[name], Split.TEST: 30} for name in others}
    for evaluation in results.evaluations:
        condition = evaluation.condition or ranking
        table = under_conditions[condition].of_network(evaluation.network)
        key = EvaluationKey(evaluation.configuration, evaluation.estimate, evaluation.batch_size, evaluation.split)
        assert evaluation.loss == pytest.approx(float(table.outcomes[key].losses.mean(dtype="float64")))


def test_unknown_or_reserved_condition_is_one_clear_error(under_conditions):
    with pytest.raises(KeyError, match="there is no condition 'dark'"):
        under_conditions.to_external_results("own", ranked_under="dark")
    reserved = bln_search.evaluate_configurations(trained(), TRAIN, {"clean": VALIDATION, "test": VALIDATION})
    with pytest.raises(ModelError, match="the name test is reserved"):
        reserved.to_external_results("own")
