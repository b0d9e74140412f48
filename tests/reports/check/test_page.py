"""A check is a self-contained page and a model card with valid front matter."""

from __future__ import annotations

import pytest
import yaml

from bln_search.ranking.comparison import MeanDifference
from bln_search.ranking.network_check import (
    Calibration,
    CalibrationStage,
    Cause,
    CheckedCondition,
    CheckedVariant,
    CheckVerdict,
    Finding,
    NetworkCheck,
    Variant,
)
from bln_search.reports.check.model_card import render_check_model_card
from bln_search.reports.check.page import render_check_html
from bln_search.reports.check.sentences import VARIANT_SENTENCES, verdict_sentence

GAIN = MeanDifference(mean=-0.5, low=-0.7, high=-0.3, p=1e-9, adjusted=2e-9)


def row(variant, loss, difference=None, size=64):
    return CheckedVariant(
        variant=variant, batch_size=size, loss=loss, accuracy=0.5, difference=difference, is_candidate=True
    )


@pytest.fixture
def check():
    variants = (
        row(Variant.DEPLOYED, 1.5),
        row(Variant.RE_ESTIMATED, 1.0, GAIN),
        row(Variant.MINI_BATCH, 1.2, GAIN),
        row(Variant.MINI_BATCH, None, size=2),
    )
    condition = CheckedCondition(
        name="night",
        examples=90,
        verdict=CheckVerdict.CHANGE,
        chosen=Variant.RE_ESTIMATED,
        variants=variants[:2],
        calibration=Calibration(stages=(CalibrationStage(examples=32, loss=1.1, difference=None),), sufficient=32),
    )
    finding = Finding(
        cause=Cause.STALE_STATISTICS, evidence="<b>evidence</b>", remedy="the remedy", code="a_call()", has_effect=True
    )
    return NetworkCheck(
        network="Net",
        parameters=1234,
        layers={"BatchNorm2d": 3},
        verdict=CheckVerdict.CHANGE,
        chosen=Variant.RE_ESTIMATED,
        variants=variants,
        findings=(finding,),
        conditions=(condition,),
        margin=0.01,
        loss_name="cross-entropy",
        loss_unit="nats",
        examples=90,
        training_examples=600,
        training_batch_size=32,
        data_digest="0" * 64,
        versions={"python": "3", "torch": "2", "bln-search": "0"},
        device="cpu",
        seconds=1.0,
    )


def test_the_page_has_verdict_findings_and_conditions_and_escapes_text(check):
    page = render_check_html(check)
    assert verdict_sentence(check).replace("'", "&#39;") in page
    assert "&lt;b&gt;evidence" in page
    assert "<b>evidence" not in page
    assert "night" in page
    assert "http" not in page.split("<script>")[0].replace("http-equiv", "")


def test_the_front_matter_has_the_figures_of_the_chosen_variant(check):
    front = yaml.safe_load(render_check_model_card(check, name="net", data="night images").split("---")[1])
    (result,) = front["model-index"][0]["results"]
    assert result["dataset"] == {"name": "night images", "type": "night-images"}
    assert {each["type"]: each["value"] for each in result["metrics"]} == {"accuracy": 0.5, "loss": 1.0}


@pytest.mark.parametrize("verdict", CheckVerdict)
def test_each_verdict_is_a_sentence_of_its_own(check, verdict):
    sentence = verdict_sentence(check.model_copy(update={"verdict": verdict}))
    assert sentence.lower().startswith(str(verdict))


def test_every_variant_has_a_sentence():
    assert VARIANT_SENTENCES.keys() == set(Variant)
