"""Networks are pushed to the Hugging Face Hub and loaded from it: its client against a server of this machine."""

from __future__ import annotations

import importlib
import json
import sys

import pytest
import torch

import bln_search
from bln_search.api.export.study_export import export_trained_row
from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import ExportFormat
from bln_search.core.errors import HubError
from tests.api.export.own_networks import INPUTS, mixed
from tests.api.trained import DIGITS, row_of, train
from tests.conftest import ROOT
from tests.docs.pages import PAGES, blocks, run_python
from tests.integrations.hub_server import TOKEN, serve_hub

huggingface_hub = pytest.importorskip("huggingface_hub")

from bln_search.integrations.huggingface_hub import from_pretrained, push_to_hub  # noqa: E402 - needs the package

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=<...>'.*:DeprecationWarning")
"""huggingface_hub uploads large files as httpx2 does not want it any more."""

NAME = "me/network"
FAST = {"example_inputs": INPUTS, "formats": ["safetensors"]}


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A server with the token of its user, in place of the Hub."""
    constants = huggingface_hub.constants
    with serve_hub() as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.address)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.address + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)  # the server has the protocol of Git LFS alone
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", False)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield hub


@pytest.fixture(scope="module")
def study_folder(tmp_path_factory):
    """The export of a trained network of a study."""
    folder = tmp_path_factory.mktemp("study")
    row, _ = row_of(train(folder, "{name: mlp, widths: [8]}", "{method: bln}"), "TTTT")
    forms = frozenset({ExportFormat.SAFETENSORS})
    export_trained_row(row, FolderStore(folder), DIGITS, folder / "export", forms=forms)
    return folder / "export"


@pytest.fixture(scope="module")
def own_folder(tmp_path_factory):
    """The export of a user's own network."""
    folder = tmp_path_factory.mktemp("own") / "export"
    bln_search.export(mixed(), folder, **FAST)
    return folder


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def with_description(folder, **changes):
    """The files of an export whose description was changed."""
    files = content(folder)
    files["configuration.json"] = json.dumps(json.loads(files["configuration.json"]) | changes).encode()
    return files


def test_network_of_a_study_comes_back_with_the_same_outputs_bit_for_bit(hub, study_folder):
    commit = push_to_hub(study_folder, NAME)
    assert commit.commit_url.startswith(f"{hub.address}/{NAME}/commit/")
    x = torch.from_numpy(DIGITS.test_inputs[:50]).float()
    assert torch.equal(from_pretrained(NAME)(x), bln_search.load(study_folder)(x))


def test_network_of_the_user_comes_back_into_an_instance_of_its_class(hub):
    network = mixed()
    push_to_hub(network, NAME, **FAST)
    with torch.no_grad():
        assert torch.equal(from_pretrained(NAME, model=mixed(method="same"))(INPUTS), network(INPUTS))


def test_exactly_the_exported_files_are_pushed_in_one_commit(hub, study_folder, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, data in content(study_folder).items():
        (folder / name).write_bytes(data)
    (folder / ".env").write_text("SECRET=1")
    push_to_hub(folder, NAME, commit_message="First network")
    assert hub.files(NAME) == {**content(study_folder), ".gitattributes": b""}
    assert [commit.summary for commit in hub.repositories[NAME].branches["main"]] == ["initial commit", "First network"]


def test_files_of_an_earlier_export_are_deleted_in_the_same_commit(hub, study_folder):
    hub.add(NAME, {"model.onnx": b"old", "picture.png": b"kept"})
    push_to_hub(study_folder, NAME)
    assert "model.onnx" not in hub.files(NAME)
    assert hub.files(NAME)["picture.png"] == b"kept"
    assert len(hub.repositories[NAME].branches["main"]) == 2


def test_edited_card_is_pushed(hub, study_folder, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, data in content(study_folder).items():
        (folder / name).write_bytes(data)
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# Mine\n")
    push_to_hub(folder, NAME)
    assert hub.files(NAME)["README.md"].endswith(b"# Mine\n")


def test_card_that_the_hub_refuses_is_an_error_before_the_commit(hub, study_folder, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, data in content(study_folder).items():
        (folder / name).write_bytes(data)
    (folder / "README.md").write_text("---\nmodel-index: [{results: [{task: {}, dataset: {}, metrics: []}]}]\n---\n")
    with pytest.raises(HubError, match=r"refuses the export: .*model-index lacks type; nothing was committed"):
        push_to_hub(folder, NAME)
    assert len(hub.repositories[NAME].branches["main"]) == 1


def test_revision_is_a_branch_that_is_created_and_loaded(hub, study_folder, own_folder):
    push_to_hub(own_folder, NAME)
    commit = push_to_hub(study_folder, NAME, revision="study")
    x = torch.from_numpy(DIGITS.test_inputs[:5]).float()
    expected = bln_search.load(study_folder)(x)
    assert torch.equal(from_pretrained(NAME, revision="study")(x), expected)
    assert torch.equal(from_pretrained(NAME, revision=commit.oid)(x), expected)
    with pytest.raises(bln_search.DataError, match="model=network"):
        from_pretrained(NAME)
    with pytest.raises(HubError, match=r"me/network at v9: it has no revision v9: give one of its branches"):
        from_pretrained(NAME, revision="v9")


def test_pull_request_leaves_the_branch_as_it_is(hub, study_folder):
    hub.add(NAME, {})
    assert push_to_hub(study_folder, NAME, create_pr=True).pr_url.endswith("/discussions/1")
    assert hub.files(NAME) == {}
    assert "model.safetensors" in hub.files(NAME, "refs/pr/1")


def test_private_repository_needs_the_token(hub, study_folder, monkeypatch):
    push_to_hub(study_folder, NAME, private=True)
    assert hub.repositories[NAME].private
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(HubError, match=r"you may not see it: check its name; if it is private, log in"):
        from_pretrained(NAME)
    assert not from_pretrained(NAME, token=TOKEN).training


def test_private_network_is_not_pushed_into_a_public_repository(hub, study_folder):
    hub.add(NAME, {})
    with pytest.raises(HubError, match="is public already"):
        push_to_hub(study_folder, NAME, private=True)
    assert hub.files(NAME) == {}


def test_push_without_the_right_to_write_says_what_to_do(hub, study_folder):
    with pytest.raises(HubError, match=r"the Hub answered 401 .*log in with `hf auth login`, or give token="):
        push_to_hub(study_folder, NAME, token="hf_reader")


def test_missing_repository_and_wrong_name_say_what_to_do(hub):
    with pytest.raises(HubError, match="there is no such repository"):
        from_pretrained("me/nothing")
    with pytest.raises(HubError, match=r"no name of a repository.*write user/name"):
        from_pretrained("../../etc/passwd")
    assert not any("passwd" in request for request in hub.requests)


def test_failures_of_the_server_are_retried(hub, study_folder, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    hub.failures += [("preupload", 503), ("PUT /lfs", 500), ("HEAD .*configuration", 502)]
    push_to_hub(study_folder, NAME)
    assert not from_pretrained(NAME).training
    assert not hub.failures


def test_failure_that_lasts_is_an_error_that_says_what_to_do(hub, study_folder):
    hub.failures += [("/commit/", 500), ("GET .*safetensors", 503)]
    with pytest.raises(HubError, match=r"the Hub answered 500 .*try again later"):
        push_to_hub(study_folder, NAME)
    assert len(hub.repositories[NAME].branches["main"]) == 1
    push_to_hub(study_folder, NAME)
    assert len(hub.repositories[NAME].branches["main"]) == 2
    with pytest.raises(HubError, match=r"the Hub answered 503 .*try again later"):
        from_pretrained(NAME)
    assert not from_pretrained(NAME).training


def test_answer_of_a_proxy_is_an_error_that_says_what_to_do(hub, study_folder):
    hub.failures += [("validate-yaml", 502)]
    with pytest.raises(HubError, match=r"the answer is not that of a Hub .*check HF_ENDPOINT and proxies"):
        push_to_hub(study_folder, NAME)


def test_cache_is_used_without_a_request(hub, study_folder, tmp_path):
    push_to_hub(study_folder, NAME)
    with pytest.raises(HubError, match="not in the cache"):
        from_pretrained(NAME, local_files_only=True)
    from_pretrained(NAME, cache_dir=tmp_path / "own")
    hub.requests.clear()
    assert not from_pretrained(NAME, cache_dir=tmp_path / "own", local_files_only=True).training
    assert hub.requests == []


def test_only_description_and_weights_are_downloaded(hub, study_folder):
    hub.add(NAME, content(study_folder) | {"README.md": b"x" * 50_000_000, "hook.py": b"raise SystemExit"})
    from_pretrained(NAME)
    downloaded = {request.rpartition("/")[2] for request in hub.requests if "/resolve/" in request}
    assert downloaded == {"configuration.json", "model.safetensors"}


HOSTILE = {
    "no description": (lambda files: files.pop("configuration.json"), "is not an export of .*configuration.json"),
    "another library's description": (
        lambda files: files.update({"configuration.json": b'{"model_type": "bert", "auto_map": {"AutoModel": "x.y"}}'}),
        "has no format",
    ),
    "huge description": (lambda files: files.update({"configuration.json": b" " * 20_000_000}), "20,000,000 bytes"),
    "nested description": (lambda files: files.update({"configuration.json": b"[" * 200_000}), "damaged"),
    "no weights": (lambda files: files.pop("model.safetensors"), "is not an export of .*model.safetensors"),
    "other weights": (lambda files: files.update({"model.safetensors": b"\x80\x04pickle"}), "its SHA-256 is"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_repository_is_refused(hub, study_folder, name):
    change, message = HOSTILE[name]
    files = content(study_folder)
    change(files)
    hub.add(NAME, files)
    with pytest.raises(bln_search.DataError, match=message):
        from_pretrained(NAME)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"files": {"../../.bashrc": "0"}}, "names files that no export has"),
        ({"files": {"model.safetensors": "0", "pytorch_model.bin": "0"}}, "names files that no export has"),
        ({"files": {}}, "has no model.safetensors"),
        ({"auto_map": "x"}, "auto_map"),
        ({"format": 99}, "of format 99"),
        (
            {"model": {"name": "os:system", "options": {}, "input_shape": [64], "classes": 10, "class_names": None}},
            "os:",
        ),
    ],
)
def test_hostile_description_is_refused_before_weights_are_downloaded_or_used(hub, study_folder, changes, message):
    hub.add(NAME, with_description(study_folder, **changes))
    with pytest.raises(bln_search.BlnSearchError, match=message):
        from_pretrained(NAME)


@pytest.mark.parametrize(
    "options", [{"widths": [20000, 20000]}, {"widths": [10**18]}, {"widths": [8] * 100}, {"widths": "x"}, {"hook": "x"}]
)
def test_hostile_size_of_a_model_takes_no_memory(hub, study_folder, options):
    model = {"name": "mlp", "options": options, "input_shape": [1, 8, 8], "classes": 10, "class_names": None}
    hub.add(NAME, with_description(study_folder, model=model))
    with pytest.raises(bln_search.BlnSearchError, match=r"parameters with these options|does not belong|has no option"):
        from_pretrained(NAME)


def test_program_of_a_repository_is_never_loaded(hub, tmp_path, monkeypatch):
    bln_search.export(mixed(), tmp_path / "program", example_inputs=INPUTS, formats=["torch_export", "safetensors"])
    push_to_hub(tmp_path / "program", NAME)
    monkeypatch.setattr(torch.export, "load", pytest.fail)
    monkeypatch.setattr(torch, "load", pytest.fail)
    with pytest.raises(bln_search.DataError, match="Programs are not loaded from the Hub"):
        from_pretrained(NAME)
    assert not any("model.pt2" in request for request in hub.requests if "/resolve/" in request)
    assert not from_pretrained(NAME, model=mixed()).training


def test_damaged_folder_is_not_pushed(hub, study_folder, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, data in content(study_folder).items():
        (folder / name).write_bytes(data)
    (folder / "parity.json").unlink()
    with pytest.raises(bln_search.DataError, match=r"lacks parity\.json"):
        push_to_hub(folder, NAME)
    (folder / "model.safetensors").write_bytes(b"")
    with pytest.raises(bln_search.DataError, match="its SHA-256 is"):
        push_to_hub(folder, NAME)
    with pytest.raises(TypeError, match="exported already: leave out example_inputs"):
        push_to_hub(study_folder, NAME, example_inputs=INPUTS)
    assert hub.requests == []


def test_hub_that_cannot_be_reached_is_an_error_that_says_what_to_do(hub, study_folder, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(HubError, match=r"cannot be reached .*check the connection and HF_ENDPOINT"):
        push_to_hub(study_folder, NAME)


def test_missing_package_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.delitem(sys.modules, "bln_search.integrations.huggingface_hub")
    with pytest.raises(bln_search.MissingPackageError, match=r"pip install 'bln-search\[hub\]'"):
        importlib.import_module("bln_search.integrations.huggingface_hub")


@pytest.mark.slow
def test_code_of_the_page_pushes_and_loads(hub, tmp_path):
    (block,) = [block for block in blocks(PAGES["integrations.md"], "python") if "huggingface_hub" in block.text]
    assert len([line for line in block.text.splitlines() if line]) <= 10
    before = (
        "import torch, warnings\nimport bln_search\nfrom tests.api.export.own_networks import INPUTS as x, mixed\n"
        "warnings.filterwarnings('ignore', 'Use .content', DeprecationWarning)\nmodel, again = mixed(), mixed()\n"
    )
    after = "assert torch.equal(loaded(x), model(x))\nassert not loaded.training"
    printed = run_python(
        "\n".join([before, block.text, after]),
        where=tmp_path,
        HF_ENDPOINT=hub.address,
        HF_HOME=str(tmp_path / "home"),
        HF_HUB_DISABLE_XET="1",
        PYTHONPATH=str(ROOT),
    )
    assert printed.strip() == f"{hub.address}/me/digits/commit/{hub.repositories['me/digits'].branches['main'][-1].sha}"
    assert b"license: mit" in hub.files("me/digits")["README.md"]
