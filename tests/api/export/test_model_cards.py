"""Model cards have front matter that huggingface_hub reads back as it was meant, with the figures of the network."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch

import bln_search
from bln_search.api.export.description import ExportedRowMetrics, LossAndAccuracy
from bln_search.api.export.study_export import export_trained_row
from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import ExportFormat
from bln_search.data import load_data_set
from tests.api.export.own_networks import INPUTS, mixed, rows
from tests.api.trained import DIGITS, STUDY, row_of, train
from tests.integrations.hub_server import find_card_problem, read_front_matter

hub = pytest.importorskip("huggingface_hub")

FAST = {"example_inputs": INPUTS, "formats": ["safetensors"]}
FORMS = frozenset({ExportFormat.SAFETENSORS})
METADATA = {"license": "mit", "datasets": ["ylecun/mnist"], "pipeline_tag": "image-classification", "tags": ["mine"]}


def read_card(folder):
    """The card as huggingface_hub reads it, after its own round trip and the rules of the Hub."""
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert find_card_problem(text) is None
    front = read_front_matter(text)
    card = hub.ModelCard(text)
    assert card.data.to_dict() == front
    if "model-index" in front:
        assert (
            hub.repocard.eval_results_to_model_index(card.data.model_name, card.data.eval_results)
            == front["model-index"]
        )
    return card


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    return folder, train(folder, "{name: mlp, widths: [8]}", "{method: bln}")


def export_row(trained, target, **changes):
    folder, network = trained
    row, _ = row_of(network, "TTTT")
    _, parity = export_trained_row(replace(row, **changes), FolderStore(folder), DIGITS, target, forms=FORMS)
    return read_card(target), parity.test


def test_card_of_a_study_has_the_figures_of_its_program_with_intervals_over_examples(trained, tmp_path):
    card, test = export_row(trained, tmp_path / "out")
    data = card.data
    assert (data.library_name, data.pipeline_tag, data.metrics) == ("bln-search", "image-classification", ["accuracy"])
    assert data.tags == ["bln-search", "batch-layer-normalization"]
    assert (data.license, data.datasets) == (None, None)
    accuracy, loss = data.eval_results
    assert (accuracy.dataset_type, accuracy.dataset_split, accuracy.task_type) == ("digits", "test", data.pipeline_tag)
    assert (accuracy.metric_type, accuracy.metric_value) == ("accuracy", round(test.accuracy, 6))
    assert (loss.metric_type, loss.metric_value) == ("loss", round(test.loss, 6))
    for result in (accuracy, loss):
        low, high = result.metric_args["confidence_interval"]
        assert low < result.metric_value < high
        assert result.metric_args["over"] == f"{test.examples} examples"
    half = 1.9666 * test.loss_deviation / math.sqrt(test.examples)
    assert loss.metric_args["confidence_interval"] == pytest.approx([test.loss - half, test.loss + half], abs=1e-4)


def test_mean_over_seeds_has_an_interval_over_seeds(trained, tmp_path):
    figure = LossAndAccuracy(loss=0.5, accuracy=0.9, loss_deviation=0.1, accuracy_deviation=0.02)
    row, _ = row_of(trained[1], "TTTT")
    figures = ExportedRowMetrics(seeds=4, over_seeds={"test": figure}, this_seed=row.figures.this_seed)
    card, _ = export_row(trained, tmp_path / "out", figures=figures)
    accuracy, loss = card.data.eval_results[2:]
    assert (accuracy.metric_value, accuracy.metric_args["over"]) == (0.9, "4 seeds")
    half = 3.182446 * 0.1 / 2
    assert loss.metric_args["confidence_interval"] == pytest.approx([0.5 - half, 0.5 + half], abs=1e-5)


def test_regression_has_no_accuracy_and_its_own_task(tmp_path):
    data = load_data_set("diabetes", tmp_path)
    text = STUDY.replace("digits, fraction: 0.3, validation: 150", "diabetes, validation: 100")
    row, _ = row_of(train(tmp_path, "{name: mlp, widths: [8]}", "{method: bln}", data=data, text=text), "TTTT")
    export_trained_row(row, FolderStore(tmp_path), data, tmp_path / "out", forms=FORMS)
    card = read_card(tmp_path / "out")
    assert card.data.pipeline_tag == "tabular-regression"
    assert {result.metric_type for result in card.data.eval_results} == {"loss"}


def test_card_of_a_study_says_how_the_row_was_chosen(trained, tmp_path):
    card, _ = export_row(trained, tmp_path / "out", ranking="- **Recommended: bln TTTT**\n")
    assert "## The ranked table\n\n- **Recommended: bln TTTT**" in card.text
    assert all(heading in card.text for heading in ("## Loading", "## Figures", "## Limits"))


def test_card_of_the_user_has_metadata_table_and_figures_of_the_row(tmp_path):
    network = mixed()
    ranked = rows(network)
    row = ranked.recommended
    bln_search.export(network, tmp_path / "out", configuration=row, ranked=ranked, metadata=METADATA, **FAST)
    card = read_card(tmp_path / "out")
    assert (card.data.license, card.data.datasets) == ("mit", ["ylecun/mnist"])
    assert card.data.tags == ["bln-search", "batch-normalization", "layer-normalization", "mine"]
    accuracy, loss = card.data.eval_results
    assert (accuracy.dataset_name, accuracy.dataset_split) == ("mnist", "validation")
    (metrics,) = row.row.metrics.values()
    assert accuracy.metric_value == pytest.approx(metrics.accuracy.mean, abs=1e-6)
    assert loss.metric_value == pytest.approx(metrics.loss.mean, abs=1e-6)
    assert loss.metric_args["over"] == "6 examples"
    assert f"This network is row {row.row.rank} of {len(ranked)}, the recommended one." in card.text
    assert f"**Recommended: {ranked.recommended.row.arm} " in card.text
    assert "\\* is the recommended row" in card.text
    assert "so its figures are optimistic" in card.text


def test_card_of_another_row_says_that_it_is_not_the_recommended_one(tmp_path):
    network = mixed()
    ranked = rows(network)
    row = next(row for row in ranked[12:] if row.row.key != ranked.recommended.row.key)
    bln_search.export(network, tmp_path / "out", configuration=row, ranked=ranked, **FAST)
    text = read_card(tmp_path / "out").text
    assert f"This network is row {row.row.rank} of {len(ranked)}, not the recommended one." in text
    assert f"\n| {row.row.rank} | " in text


def test_nothing_is_claimed_that_nobody_said(tmp_path):
    bln_search.export(mixed(), tmp_path / "out", **FAST)
    data = read_card(tmp_path / "out").data
    assert (data.eval_results, data.pipeline_tag, data.license, data.datasets) == (None, None, None, None)
    assert "should say on what it was trained" in (tmp_path / "out" / "README.md").read_text()


def test_hostile_names_stay_in_their_place(tmp_path):
    network = mixed()
    type(network).__name__, name = "---\nlicense: gpl\n---", type(network).__name__
    try:
        metadata = {"license": "mit\n---\nlicense: gpl", "pipeline_tag": "x: y", "datasets": ["a/b\n---\n"]}
        bln_search.export(network, tmp_path / "out", metadata=metadata, **FAST)
    finally:
        type(network).__name__ = name
    data = read_card(tmp_path / "out").data
    assert (data.license, data.pipeline_tag) == (metadata["license"], "x: y")


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"model-index": []}, "metadata cannot have model-index"),
        ({"tags": "mine"}, "tags of metadata is a list of names"),
        ({"datasets": [1]}, "datasets of metadata is a list of names"),
        ({"license": object()}, "cannot have this value"),
        (["mit"], "metadata is a mapping"),
    ],
)
def test_invalid_metadata_is_one_error_before_anything_is_written(metadata, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        bln_search.export(mixed(), tmp_path / "out", metadata=metadata, **FAST)
    assert not (tmp_path / "out").exists()


def test_row_of_another_table_is_refused(tmp_path):
    network = mixed()
    ranked = rows(network)
    other = rows(network, blends=["N4"])
    row = next(row for row in other if row.blend is not None)
    with pytest.raises(ValueError, match="is not a row of ranked"):
        bln_search.export(network, tmp_path / "out", configuration=row, ranked=ranked, **FAST)


def test_table_of_several_conditions_is_refused_with_what_to_give(tmp_path):
    network, data = mixed(), [(INPUTS, torch.tensor([0, 1, 2, 0, 1, 2]))]
    ranked = bln_search.evaluate_configurations(network, data, {"clean": data, "noise": data}, progress=False)
    with pytest.raises(ValueError, match=r'ranked is a RankedConditions: .* as in ranked=ranked\["clean"\]'):
        bln_search.export(network, tmp_path / "out", configuration=ranked.recommended, ranked=ranked, **FAST)


def test_configuration_names_no_card_because_it_may_be_edited(trained, tmp_path):
    export_row(trained, tmp_path / "out")
    assert "README.md" not in json.loads((tmp_path / "out" / "configuration.json").read_text())["files"]
