"""Submitted results are checked completely before anything is stored; a problem names its place."""

from __future__ import annotations

import base64
import zlib

import numpy as np
import pytest

from bln_search.specs.external_results import ExternalResults, encode_base64
from bln_search.specs.sections.external import ExternalNetwork
from bln_search.storage.results import external_results
from bln_search.storage.results.external_results import decode_results_and_list_problems
from tests.support.external_results import make_results, results_body


def deflated(*losses):
    return encode_base64(zlib.compress(np.array(losses, "<f4").tobytes()))


def changed(position=0, **values):
    """Results of one network whose evaluation at `position` has other values."""
    body = results_body(networks=1, n=3, undefined=None, splits=("validation",))
    body["evaluations"][position] |= values
    return decode_results_and_list_problems(ExternalResults.model_validate(body))


def test_valid_results_have_no_problem():
    checked = decode_results_and_list_problems(make_results(networks=2, n=5))
    assert checked.problems == ()
    assert len(checked.evaluations) == 64


@pytest.mark.parametrize(
    ("values", "key", "words"),
    [
        ({"losses": deflated(1, 2, np.nan), "loss": 1.0}, "losses", "example 2 is not a finite number"),
        ({"losses": deflated(1, np.inf, 2), "loss": 1.0}, "losses", "example 1 is not a finite number"),
        ({"losses": deflated(1, 2), "loss": 1.5}, "losses", "not 3 numbers"),
        ({"losses": deflated(1, 2, 3, 4), "loss": 2.5}, "losses", "not 3 numbers"),
        ({"losses": deflated(*[0] * 1_000_000), "loss": 0.0}, "losses", "not 3 numbers"),
        ({"losses": encode_base64(zlib.compress(bytes(12)) + b"more"), "loss": 0.0}, "losses", "not 3 numbers"),
        ({"losses": encode_base64(zlib.compress(bytes(12))[:-3]), "loss": 0.0}, "losses", "not 3 numbers"),
        ({"losses": encode_base64(b"not deflated")}, "losses", "not deflated"),
        ({"losses": "?"}, "losses", "not base64"),
        ({"correct": "é"}, "correct", "not base64"),
        ({"correct": encode_base64(b"12")}, "correct", "3 examples need 1"),
        ({"correct": ""}, "correct", "3 examples need 1"),
        ({"losses": deflated(1, 2, 3), "loss": 2.00001}, "loss", "the mean of the losses is 2.0"),
    ],
)
def test_unusable_outcomes_are_named(values, key, words):
    (problem,) = changed(4, **values).problems
    assert problem.location == ("evaluations", 4, key)
    assert words in problem.message


@pytest.mark.parametrize(
    ("values", "location", "words"),
    [
        ({"network": 1}, ("evaluations", 3, "network"), "there are 1 networks"),
        ({"configuration": "TT--"}, ("evaluations", 3, "configuration"), "method bln"),
        ({"split": "test"}, ("evaluations", 3, "split"), "does not have the split test"),
        ({"configuration": "TTTT"}, ("evaluations", 3), "repeats evaluation 0"),
    ],
)
def test_evaluation_that_does_not_fit_the_others_is_named(values, location, words):
    (problem,) = changed(3, **values).problems
    assert problem.location == location
    assert words in problem.message


@pytest.mark.parametrize(
    ("networks", "words"),
    [
        ((ExternalNetwork(name="a"), ExternalNetwork(name="a", sha256="0" * 64)), "the name a"),
        (tuple(ExternalNetwork(name=name, sha256="0" * 64) for name in "ab"), "the parameters 0"),
    ],
)
def test_network_given_twice_is_named(networks, words):
    (problem,) = decode_results_and_list_problems(
        make_results(networks=2, n=3).model_copy(update={"networks": networks})
    ).problems
    assert problem.location == ("networks", 0)
    assert words in problem.message


def test_network_without_results_is_named():
    results = make_results(networks=2, n=3)
    of_first = tuple(evaluation for evaluation in results.evaluations if evaluation.network == 0)
    (problem,) = decode_results_and_list_problems(results.model_copy(update={"evaluations": of_first})).problems
    assert problem.location == ("networks", 1)


def test_too_many_losses_are_refused_before_any_is_decoded(monkeypatch):
    monkeypatch.setattr(external_results, "MOST_LOSSES", 100)
    monkeypatch.delattr(external_results, "_decode_evaluation")
    (problem,) = decode_results_and_list_problems(make_results(networks=2, n=5)).problems
    assert problem.location == ("evaluations",)
    assert "300 losses" in problem.message


def test_digest_is_independent_of_order_and_compression():
    results = make_results(networks=2, n=5)
    digest = decode_results_and_list_problems(results).sha256
    reordered = results.model_copy(update={"evaluations": results.evaluations[::-1]})
    stored = [
        each.model_copy(
            update={
                "losses": each.losses
                and encode_base64(zlib.compress(zlib.decompress(base64.b64decode(each.losses)), 0))
            }
        )
        for each in results.evaluations
    ]
    assert decode_results_and_list_problems(reordered).sha256 == digest
    assert decode_results_and_list_problems(results.model_copy(update={"evaluations": tuple(stored)})).sha256 == digest
    assert decode_results_and_list_problems(make_results(networks=2, n=6)).sha256 != digest
