"""A client that is generated from the description of the API: complete, and good for a whole study."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.service import Service, until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("service")]
DESCRIPTION = Path(__file__).parents[2] / "openapi.json"
STUDY = {
    "name": "small",
    "data": {"name": "digits", "fraction": 0.2},
    "model": {"name": "mlp", "widths": [8]},
    "arms": [{"method": "bln"}],
    "seeds": [0],
    "training": {"epochs": 2, "schedule": {"kind": "cosine", "final": 0.1}},
}


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """Its package; a warning of the generator, which leaves something out then, is an error."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "settings.yaml").write_text("post_hooks: []\n")
    words = ("--path", DESCRIPTION, "--output-path", folder / "generated_client", "--config", folder / "settings.yaml")
    process = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", "generate", *words, "--meta", "none", "--fail-on-warning"],
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert "arning" not in process.stdout + process.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield lambda name: importlib.import_module(f"generated_client.{name}")


@pytest.fixture
def service(tmp_path):
    made = Service(tmp_path / "home").start().ready()
    yield made
    made.stop()


def test_generated_client_submits_and_reads_the_leaderboard(generated, service):
    models = generated("models")
    with generated("client").AuthenticatedClient(service.address, service.token) as client:

        def call(tag, name, *arguments, **more):
            return generated(f"api.{tag}.{name}").sync(*arguments, client=client, **more)

        study = models.StudySpec.from_dict(STUDY)
        assert isinstance(study.training.schedule, models.CosineRate)
        assert call("studies", "validate_study", body=study).trials == 1
        accepted = call("studies", "submit_study", body=study)
        assert (accepted.new, accepted.state) == (True, models.StudyState.ACCEPTED)
        until(lambda: call("studies", "get_study", accepted.id).state == models.StudyState.COMPLETE, 120)
        table = call("results", "get_leaderboard", accepted.id)
        assert [row["rank"] for row in table.rows[:3]] == [1, 2, 3]
        assert len(table.rows) == 16
        until(lambda: isinstance(call("results", "get_analysis", accepted.id), models.AnalysisOut), 60)
        absent = call("studies", "get_study", 999)
        assert (absent.status, absent.type_) == (404, "urn:bln-search:problem:not-found")
