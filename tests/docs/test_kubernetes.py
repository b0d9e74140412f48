"""The Kubernetes manifests agree with the Dockerfile, the settings and the commands, and with one another."""

from __future__ import annotations

import json
import re

import pytest

from bln_search.settings import Settings
from tests.conftest import ROOT
from tests.docs.pages import OPENAPI_PATHS, PAGES, blocks, check_call, kubernetes_objects, shell_lines

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
OBJECTS = kubernetes_objects()
DEPLOYMENTS = {name: document["spec"] for (kind, name), document in OBJECTS.items() if kind == "Deployment"}
FOLDERS = {"BLN_SEARCH_HOME": "/var/lib/bln-search", "BLN_SEARCH_CACHE": "/var/cache/bln-search"}


def pod(name):
    """The specification of the pods of a deployment."""
    return DEPLOYMENTS[name]["template"]["spec"]


def container(name):
    """The container of a deployment."""
    (only,) = pod(name)["containers"]
    return only


def test_there_are_a_service_and_workers():
    assert DEPLOYMENTS.keys() == {"bln-search-web", "bln-search-worker", "bln-search-worker-gpu"}


@pytest.mark.parametrize("name", DEPLOYMENTS)
class TestDeployment:
    def test_the_selector_selects_its_pods(self, name):
        assert DEPLOYMENTS[name]["selector"]["matchLabels"] == DEPLOYMENTS[name]["template"]["metadata"]["labels"]

    def test_the_image_is_a_stage_of_the_dockerfile(self, name):
        stage = re.fullmatch(r"registry\.example\.org/bln-search-(\w+):release(-cuda)?", container(name)["image"])[1]
        assert f" AS {stage}\n" in DOCKERFILE
        assert any(
            f"--tag {container(name)['image']}" in block.text for block in blocks(PAGES["kubernetes.md"], "bash")
        )

    def test_the_arguments_are_a_command_of_the_entry_point(self, name):
        assert 'ENTRYPOINT ["bln-search"]' in DOCKERFILE
        check_call(container(name)["args"])
        assert f"CMD {json.dumps(container(name)['args'])}" in DOCKERFILE

    def test_it_runs_as_the_user_of_the_image_without_privileges(self, name):
        user, group = map(int, re.search(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE).groups())
        security = pod(name)["securityContext"]
        assert (security["runAsUser"], security["runAsGroup"], security["fsGroup"]) == (user, group, group)
        assert security["runAsNonRoot"] is True
        assert container(name)["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert pod(name)["automountServiceAccountToken"] is False

    def test_no_variable_of_a_service_looks_like_a_setting(self, name):
        assert pod(name)["enableServiceLinks"] is False

    def test_every_volume_is_mounted_and_exists(self, name):
        volumes = {volume["name"]: volume for volume in pod(name)["volumes"]}
        assert {mount["name"] for mount in container(name)["volumeMounts"]} == volumes.keys()
        claims = {
            volume["persistentVolumeClaim"]["claimName"]
            for volume in volumes.values()
            if "persistentVolumeClaim" in volume
        }
        assert {("PersistentVolumeClaim", claim) for claim in claims} <= OBJECTS.keys()
        assert volumes["tmp"] == {"name": "tmp", "emptyDir": {}}

    def test_folders_of_the_image_are_mounted(self, name):
        for variable, path in FOLDERS.items():
            assert f"{variable}={path}" in DOCKERFILE
        mounts = {mount["mountPath"] for mount in container(name)["volumeMounts"]}
        assert f"{FOLDERS['BLN_SEARCH_HOME']}/checkpoints" in mounts
        written = FOLDERS["BLN_SEARCH_HOME" if name == "bln-search-web" else "BLN_SEARCH_CACHE"]
        assert written in mounts

    def test_every_setting_exists_and_is_valid(self, name, monkeypatch, tmp_path):
        own = {variable["name"]: variable["value"] for variable in container(name).get("env", ())}
        (source,) = container(name)["envFrom"]
        values = {**OBJECTS["ConfigMap", source["configMapRef"]["name"]]["data"], **own}
        for variable, value in values.items():
            assert variable.removeprefix("BLN_SEARCH_").lower() in Settings.model_fields
            monkeypatch.setenv(variable, value)
        settings = Settings()
        assert "localhost" in settings.hosts
        assert settings.device == ("cuda" if name.endswith("gpu") else "auto")

    def test_the_password_is_the_key_of_the_secret_that_the_page_creates(self, name):
        commands = [words for block in blocks(PAGES["kubernetes.md"], "bash") for words in shell_lines(block.text)]
        ((*_, secret, key),) = [words for words in commands if words[:3] == ["kubectl", "create", "secret"]]
        mounts = {mount["name"]: mount["mountPath"] for mount in container(name)["volumeMounts"]}
        (volume,) = [volume for volume in pod(name)["volumes"] if "secret" in volume]
        assert volume["secret"]["secretName"] == secret
        file = f"{mounts[volume['name']]}/{key.removeprefix('--from-file=').partition('=')[0]}"
        assert OBJECTS["ConfigMap", "bln-search"]["data"]["BLN_SEARCH_DATABASE_PASSWORD_FILE"] == file

    def test_probes_ask_what_the_program_answers(self, name):
        probes = {key: value for key, value in container(name).items() if key.endswith("Probe")}
        assert probes
        for probe in probes.values():
            if "exec" in probe:
                program, *words = probe["exec"]["command"]
                assert program == "bln-search"
                check_call(words)
            else:
                assert probe["httpGet"]["path"] in OPENAPI_PATHS
                assert {"name": "Host", "value": "localhost"} in probe["httpGet"]["httpHeaders"]

    def test_memory_and_time_to_stop_are_bounded(self, name):
        assert "memory" in container(name)["resources"]["limits"]
        assert pod(name)["terminationGracePeriodSeconds"] >= 20


def test_the_service_leads_to_the_port_of_the_web_pods():
    service = OBJECTS["Service", "bln-search-web"]["spec"]
    assert service["selector"] == DEPLOYMENTS["bln-search-web"]["selector"]["matchLabels"]
    (port,) = service["ports"]
    (exposed,) = container("bln-search-web")["ports"]
    assert port["targetPort"] == exposed["name"]
    assert str(exposed["containerPort"]) in container("bln-search-web")["args"]
    assert "bln-search-web" in json.loads(OBJECTS["ConfigMap", "bln-search"]["data"]["BLN_SEARCH_HOSTS"])


def test_checkpoints_and_data_can_be_shared_by_pods():
    for name in ("bln-search-checkpoints", "bln-search-data"):
        assert OBJECTS["PersistentVolumeClaim", name]["spec"]["accessModes"] == ["ReadWriteMany"]


def test_only_the_worker_for_gpus_asks_for_one():
    asked = {name: container(name)["resources"]["limits"].get("nvidia.com/gpu") for name in DEPLOYMENTS}
    assert asked == {"bln-search-web": None, "bln-search-worker": None, "bln-search-worker-gpu": "1"}
