"""The keys in which specifications differ."""

from __future__ import annotations

from bln_search.specs import parse_study
from bln_search.specs.spec_differences import list_key_differences
from tests.support.external_results import make_results

STUDY = """
name: NAME
title: about NAME
data: {name: digits}
model: {name: mlp, widths: WIDTHS}
arms: ARMS
seeds: [0, 1]
training: {epochs: 3, batch_size: 25, learning_rate: RATE}
"""


def made(name, widths="[8]", arms="[{method: bn}]", rate="0.1"):
    text = STUDY.replace("NAME", name).replace("WIDTHS", widths).replace("ARMS", arms).replace("RATE", rate)
    return parse_study(text)


def differences(*specs):
    return {row.key: row.values for row in list_key_differences(specs)}


def test_equal_studies_with_other_names_do_not_differ():
    assert differences(made("first"), made("second")) == {}


def test_each_differing_key_has_its_value_in_every_study():
    found = differences(made("first"), made("second", rate="0.2"), made("third", "[8, 4]"))
    assert found == {"model.widths": ("[8]", "[8]", "[8, 4]"), "training.learning_rate": ("0.1", "0.2", "0.1")}


def test_arms_differ_by_label_and_by_the_keys_of_common_ones():
    first = made("first", arms="[{method: bn, momentum: 0.9}, {method: ln}]")
    second = made("second", arms="[{method: bn, momentum: 0.5}]")
    assert differences(first, second) == {"arms": ("bn, ln", "bn"), "arms.bn.momentum": ("0.9", "0.5")}


def test_a_key_that_one_study_lacks_has_no_value_there():
    plain, other = made("first"), made("second", rate="0.1, momentum: 0.9, optimizer: sgd")
    assert differences(plain, other)["training.momentum"] == (None, "0.9")


def test_submitted_results_differ_in_the_sections_that_they_have():
    one, two = (make_results(networks=number).make_study_spec("0" * 64) for number in (1, 2))
    assert "seeds" in differences(one, two)
    trained = made("first", arms="[{method: bln, name: network, momentum: 0.5}]")
    found = differences(trained, one)
    assert found["training.epochs"] == ("3", None)
    assert found["arms.network.momentum"] == ("0.5", None)
    assert differences(one, trained)["arms.network.momentum"] == (None, "0.5")
