"""The package of the page about plugins, installed, is used by a study."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest

from tests.docs.pages import PAGES, blocks, run_calls, run_python, shell_lines
from tests.support.printed_tables import printed_ranks

pytestmark = pytest.mark.slow

PAGE = PAGES["plugins.md"]


def install(folder):
    """As pip would: the module, and what it is registered for."""
    python = blocks(PAGE, "python")
    for file in {block.title for block in python}:
        (folder / file).write_text("\n".join(block.text for block in python if block.title == file))
    (project,) = [tomllib.loads(block.text)["project"] for block in blocks(PAGE, "toml")]
    facts = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in project["entry-points"].items()
    ]
    (facts / "entry_points.txt").write_text("\n".join(groups))


def write_data_and_study(folder):
    rng = np.random.default_rng(0)
    arrays = {}
    for split, count in (("train", 80), ("test", 40)):
        inputs = rng.integers(0, 256, (count, 6), dtype=np.uint8)
        arrays |= {f"{split}_inputs": inputs, f"{split}_labels": (inputs[:, 0] > inputs[:, 1]).astype(np.int64)}
    (folder / "data").mkdir()
    np.savez(folder / "data" / "own_data.npz", **arrays)
    (study,) = blocks(PAGE, "yaml")
    (folder / study.title).write_text(study.text)
    return study


def test_study_runs_with_model_and_data_of_the_plugin(tmp_path):
    install(tmp_path)
    study = write_data_and_study(tmp_path)
    lines = [words for block in blocks(PAGE, "bash") for words in shell_lines(block.text)]
    calls = [words[1:] for words in lines if words[0] == "bln-search"]
    assert [call[0] for call in calls] == ["data", "validate", "run", "export"]
    printed = run_calls(calls, where=tmp_path)
    assert "own_data" in printed
    assert "4 trials, 40 evaluations" in printed
    assert "needs the package that has the model `own_net`" in (tmp_path / "own_best" / "README.md").read_text()
    call = ["run", "bad.yaml", "--data", "data"]
    (tmp_path / "bad.yaml").write_text(study.text.replace("[12, 6]", "[12]").replace("own_study", "bad_study"))
    with pytest.raises(AssertionError, match=r"own_net of an installed package cannot be made .* widths: .12"):
        run_calls([call], where=tmp_path)
    assert len(printed_ranks(printed)) == 20


PARTS = """
import sys

import numpy as np

import bln_search
from bln_search.specs import parse_study

REST = "model: {name: mlp}, arms: [{method: bln}], seeds: [0]"
study = parse_study("{name: own, data: {name: digits}, task: {name: own_focal}, %s}" % REST)
parse_study("{name: own, data: {name: own_data}, training: {batch_size: 5}, %s}" % REST.replace("mlp", "own_net"))
print(study.loss_description.text, "torch" in sys.modules)

occluded = bln_search.corrupt(np.ones((3, 1, 10, 20)), "own_occlusion-5")
print(*(occluded == 0).sum((1, 2, 3)), len({image.tobytes() for image in occluded}))

import torch
from torch import nn
from own_parts import ChannelNorm
from bln_search.tasks import make_task
from bln_search.tasks.task_metrics import DimensionsAndTargetDeviation, make_metrics

network, x = nn.Sequential(ChannelNorm(4)), torch.randn(2, 4, 3, 3)
converted = bln_search.convert(nn.Sequential(*network), method="same", strict=True)
print(type(converted[0]).__name__, torch.allclose(converted(x), network(x), atol=1e-6))

outputs, targets = torch.zeros(4, 2), torch.tensor([0, 1, 1, 0])
losses, correct = make_task(study.task).score(outputs, targets)
metric = make_metrics(study.task, DimensionsAndTargetDeviation(1))["top_two"]
metric.update(outputs, targets)
print(f"{losses[0]:.4f}", correct.sum().item(), metric.compute())

from bln_search.core.registry import ADAPTATIONS

info = ADAPTATIONS.load_info("own_balance")
balance = ADAPTATIONS.load_object("own_balance", info.factory)(nn.Linear(3, 2), momentum=0.5)
first = balance.predict(torch.ones(4, 3))
balance.predict(-torch.ones(4, 3))
balance.reset()
print(sorted(info.own_options), torch.equal(balance.predict(torch.ones(4, 3)), first))
"""


def test_task_corruption_adaptation_and_normalization_layer_of_the_plugin_are_used(tmp_path):
    install(tmp_path)
    assert run_python(PARTS, where=tmp_path).splitlines() == [
        *("mean focal loss in nats False", "50 50 50 3"),
        *("LN True", "0.1733 2 1.0", "['momentum'] True"),
    ]


USES = (
    ["run", "own.yaml", "--data", "data"],
    ["export", "own_study", "--output", "own_best", "--data", "data"],
    ["probe", "own_study", "--batch-sizes", "5", "--data", "data"],
    ["search-layers", "own_study", "--data", "data"],
    ["verify", "own_study", "--data", "data"],
)
PRINT_ERRORS = """
from bln_search.cli.main import app
from bln_search.core.errors import CodeChangedError

for call in {calls}:
    try:
        app(call, standalone_mode=False)
    except CodeChangedError as error:
        print(error)
"""


def test_no_command_mixes_results_with_changed_code_of_the_plugin(tmp_path):
    install(tmp_path)
    write_data_and_study(tmp_path)
    run_calls(USES[:1], where=tmp_path)
    file = tmp_path / "own_parts.py"
    file.write_text(file.read_text().replace("nn.Tanh", "nn.Sigmoid"))
    errors = run_python(PRINT_ERRORS.format(calls=USES), where=tmp_path).splitlines()
    assert [f"own_parts.py ({file})" in error for error in errors] == [True] * len(USES)
    accepted = run_calls([[*USES[0], "--accept-code-change"]], where=tmp_path)
    assert "The code of this study changed: own_parts.py" in accepted
    assert len(printed_ranks(accepted)) == 20
