"""`bln-search validate` prints the plan of each arm, and estimates the time of the study."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from bln_search.cli.main import app
from bln_search.core.errors import ModelError
from bln_search.data.catalog import _make_version_with_code, get_catalog_entry
from bln_search.execution.time_estimate import estimate as estimate_module
from bln_search.execution.time_estimate.estimate import measure_process_start_seconds
from bln_search.specs import list_planned_configurations_and_estimates, list_planned_trial_specs, parse_study

STUDY = """
name: planned
data: {name: digits}
model: {name: mlp}
arms: [{method: bln}, {method: bn}]
seeds: [0, 1, 2]
evaluation: {batch_sizes: [1, 25]}
"""
SAMPLED = "space: {training.learning_rate: {kind: float, low: 1e-4, high: 0.1}}\nsearch: {sampler: random, trials: 2}\n"


@pytest.fixture(autouse=True)
def process_start(monkeypatch):
    """The start of a process for trials has a duration that is not measured."""
    monkeypatch.setattr(estimate_module, "measure_process_start_seconds", lambda _: 2.5)


@pytest.fixture
def file(tmp_path):
    (tmp_path / "study.yaml").write_text(STUDY)
    return tmp_path / "study.yaml"


def test_arms_are_records_with_their_trials(file, in_every_format):
    printed = in_every_format("validate", file)
    planned = list_planned_trial_specs(parse_study(STUDY))
    assert printed.json == printed.jsonl
    assert [(record["arm"], record["method"], record["trials"]) for record in printed.json] == [
        ("bln", "bln", 3),
        ("bn", "bn", 3),
    ]
    assert sum(record["trials"] for record in printed.json) == len(planned)
    assert sum(record["evaluations"] for record in printed.json) == sum(
        2 * len(list_planned_configurations_and_estimates(trial)) for trial in planned
    )
    assert [row["rows"] for row in printed.csv] == [str(record["rows"]) for record in printed.json]


def test_missing_data_is_noted_until_files_or_a_decoded_copy_are_there(file, invoke, records, tmp_path, monkeypatch):
    """The study is valid all the same; the list of data sets agrees."""
    monkeypatch.setenv("BLN_SEARCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("BLN_SEARCH_CACHE", str(tmp_path / "cache"))

    def find_state():
        (found,) = [record["files"] for record in records("data", "list") if record["name"] == "cifar10"]
        return found

    assert "digits" not in invoke("validate", file).stderr
    file.write_text(STUDY.replace("digits", "cifar10").replace("mlp", "lenet"))
    missing = invoke("validate", file)
    assert missing.exit_code == 0
    assert str(tmp_path / "data") in missing.stderr
    assert "data fetch cifar10" in missing.stderr
    state = find_state()
    entry = get_catalog_entry("cifar10")
    (tmp_path / "cache" / f"cifar10-{_make_version_with_code('cifar10', entry)}").mkdir(parents=True)
    assert "cifar10" not in invoke("validate", file).stderr
    assert find_state().startswith(state)
    assert find_state() != state


def test_trials_of_sampled_points_are_unknown(file, records):
    file.write_text(STUDY + SAMPLED)
    assert [record["trials"] for record in records("validate", file)] == [None, None]


THEN_TRAIN = (
    "space: {training.learning_rate: SPACE}\nsearch: {sampler: SAMPLER, trials: 4, then_train: true, epochs: 2}\n"
)


@pytest.mark.parametrize(
    ("sampler", "space", "trials"),
    [
        ("brent", "{kind: float, low: 1e-4, high: 0.1}", None),
        ("grid", "{kind: choice, values: [0.1, 0.2, 0.3, 0.4]}", 4 + 3),
    ],
)
def test_trials_of_the_best_points_are_counted(file, invoke, records, sampler, space, trials):
    file.write_text(STUDY + THEN_TRAIN.replace("SAMPLER", sampler).replace("SPACE", space))
    assert [(record["trials"], record["evaluations"]) for record in records("validate", file)] == [(trials, None)] * 2
    printed = " ".join(invoke("validate", file).stdout.split())
    assert f"{2 * 4 + 2 * 3} trials" in printed
    assert "6 train the best point of each arm with all seeds" in printed


def test_estimate_has_the_search_trials_and_the_full_trainings(file, invoke):
    file.write_text(
        STUDY.replace("seeds", "training: {epochs: 8}\nseeds")
        + THEN_TRAIN.replace("SAMPLER", "brent").replace("SPACE", "{kind: float, low: 1e-4, high: 0.1}")
    )
    printed = estimate(invoke, file, "--workers", "1")
    assert printed["trials"] == 14
    for arm in printed["arms"]:
        assert (arm["trials"], arm["epochs_min"], arm["epochs_max"]) == (7, 2, 8)
        trained = arm["seconds_of_training_per_trial"] * arm["trials"] / arm["seconds_per_step_median"]
        assert trained == pytest.approx((4 * 2 + 3 * 8) * arm["steps_per_epoch"], rel=1e-6)


def test_evaluations_that_conditions_add_are_printed(file, invoke):
    file.write_text(STUDY.replace("[1, 25]", "[1, 25], conditions: [fog, contrast-5]"))
    planned = sum(
        2 * 3 * len(list_planned_configurations_and_estimates(trial))
        for trial in list_planned_trial_specs(parse_study(STUDY))
    )
    printed = " ".join(invoke("validate", file).stdout.split())
    assert f"{planned} evaluations" in printed
    assert f"2 conditions add {planned * 2 // 3}" in printed


ESTIMATE = ("--estimate-time", "--seconds-per-arm", "0.2", "--device", "cpu")
TEXTS = """
name: texts
data: {name: imdb, validation: 100}
model: {name: lstm, widths: [4], embedding: 4}
arms: [{method: ln}]
training: {epochs: 2, batch_size: 10}
"""


def estimate(invoke, file, *words):
    done = invoke("validate", file, *ESTIMATE, *words, "--format", "json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_an_estimate_has_the_seconds_of_each_part_and_arm_and_of_the_study(file, invoke):
    printed = estimate(invoke, file, "--workers", "1")
    assert (printed["inputs"], printed["device"], printed["workers"], printed["trials"]) == ("data set", "cpu", 1, 6)
    assert printed["slowdown_factor"] == 1
    assert printed["seconds_of_process_start"] == 2.5
    assert [(arm["arm"], arm["trials"], arm["batch_size"]) for arm in printed["arms"]] == [
        ("bln", 3, 25),
        ("bn", 3, 25),
    ]
    assert printed["seconds_of_trials"] == pytest.approx(sum(arm["seconds_of_trials"] for arm in printed["arms"]))
    started = printed["seconds_of_process_start"] + printed["seconds_of_loading"]
    assert printed["seconds_of_study"] == pytest.approx(started + printed["seconds_of_trials"])

    for arm in printed["arms"]:
        parts = [value for name, value in arm.items() if name.startswith("seconds_of_") and name.endswith("_per_trial")]
        assert sum(parts) == pytest.approx(arm["seconds_per_trial"])
        assert arm["seconds_per_trial"] * arm["trials"] == pytest.approx(arm["seconds_of_trials"])
        training = arm["epochs_max"] * arm["steps_per_epoch"] * arm["seconds_per_step_median"]
        assert arm["seconds_of_training_per_trial"] == pytest.approx(training)
        assert arm["seconds_per_step_lower_quartile"] <= arm["seconds_per_step_median"]
        assert arm["seconds_per_step_median"] <= arm["seconds_per_step_upper_quartile"]


@pytest.mark.slow
def test_the_start_of_a_process_is_measured(file, invoke, monkeypatch):
    monkeypatch.setattr(estimate_module, "measure_process_start_seconds", measure_process_start_seconds)
    assert estimate(invoke, file, "--workers", "1")["seconds_of_process_start"] > 0.1


def test_records_of_an_estimate_are_those_of_its_arms(file, invoke, records):
    lines = records("validate", file, *ESTIMATE)
    done = invoke("validate", file, *ESTIMATE, "--format", "csv")
    assert [record["arm"] for record in lines] == ["bln", "bn"]
    assert done.stdout.splitlines()[0].split(",") == list(lines[0])


def test_without_the_data_set_inputs_are_synthetic_with_the_sizes_of_the_data_set(file, invoke, tmp_path):
    file.write_text(TEXTS)
    printed = estimate(invoke, file, "--data", tmp_path / "absent")
    assert printed["inputs"] == "synthetic"
    assert printed["seconds_of_loading"] == 0
    assert [arm["steps_per_epoch"] for arm in printed["arms"]] == [(25_000 - 100) // 10]


def test_the_plan_is_printed_before_the_estimate(file, invoke):
    printed = " ".join(invoke("validate", file, *ESTIMATE, "--workers", "2").stdout.split())
    assert printed.index("6 trials, ") < printed.index("with 2 workers")


def test_more_workers_than_cores_share_them(file, invoke, monkeypatch):
    monkeypatch.setattr("bln_search.execution.time_estimate.estimate.num_available_cores", lambda: 2)
    assert estimate(invoke, file, "--workers", "5")["slowdown_factor"] == 2.5


def test_a_device_that_does_not_exist_is_one_error(file, invoke):
    done = invoke("validate", file, "--estimate-time", "--device", "cuda:77")
    assert done.exit_code != 0
    assert isinstance(done.exception, ModelError)
    assert "cuda:77" in str(done.exception)


@pytest.mark.parametrize(
    "option", [("--data", "."), ("--device", "cpu"), ("--workers", "1"), ("--seconds-per-arm", "1")]
)
def test_options_of_the_estimate_without_it_are_refused(file, invoke, option):
    assert invoke("validate", file, *option).exit_code == 2


def test_the_streams_of_each_network_are_counted(tmp_path):
    file = tmp_path / "streamed.yaml"
    file.write_text(f"{STUDY}stream: {{orders: 4}}\n")
    printed = CliRunner().invoke(app, ["validate", str(file)])
    assert "each network adapts in 2 arms over 4 orders of a stream; the file is valid" in " ".join(
        printed.stdout.split()
    )
