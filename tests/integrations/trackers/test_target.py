from __future__ import annotations

from pathlib import Path

import pytest

from bln_search.integrations.trackers.target import TrackerKind, parse_tracker_target


def test_a_target_is_a_tracker_and_its_place(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert parse_tracker_target(" mlflow:http://host:5000\n").location == "http://host:5000"
    target = parse_tracker_target("tensorboard:runs")
    assert (target.kind, target.folder) == (TrackerKind.TENSORBOARD, tmp_path / "runs")
    assert parse_tracker_target("wandb-offline:~/x").folder == Path.home() / "x"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty"),
        ("mlflow", "names no tracker: write mlflow:URI, tensorboard:DIR or wandb-offline:DIR"),
        ("neptune:x", "names no tracker"),
        ("MLFLOW:http://x", "names no tracker"),
        ("mlflow:", "has nothing after mlflow:"),
        ("tensorboard:a\nb", "control character"),
        ("tensorboard:~nobody-of-this-name/x", "the name of no user"),
    ],
)
def test_another_target_is_one_sentence(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        parse_tracker_target(text)


@pytest.mark.parametrize("secret", ["ada:s3cret@", "s3cret@", "ada:s3@cret@"])
def test_no_text_shows_the_password_of_a_target(secret):
    target = parse_tracker_target(f"mlflow:http://{secret}host:5000/x")
    said = target.redact(f"API request to {target.location}/api failed, {target.location}")
    for text in (str(target), repr(target), said):
        assert "s3" not in text
        assert "cret" not in text
    assert str(target).startswith("mlflow:http://")
    assert str(target).endswith("@host:5000/x")
