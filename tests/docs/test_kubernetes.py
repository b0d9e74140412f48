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


@pytest.mark.parametrize("name", ["bln-search-web", "bln-search-worker", "bln-search-worker-gpu"])
class TestDeployment:
    def test_image_and_arguments_are_those_of_a_stage_of_the_dockerfile(self, name):
        image, arguments = container(name)["image"], container(name)["args"]
        stage = re.fullmatch(r"registry\.example\.org/bln-search-(\w+):release(-cuda)?", image)[1]
        assert f" AS {stage}\n" in DOCKERFILE
        assert any(f"--tag {image}" in block.text for block in blocks(PAGES["kubernetes.md"], "bash"))
        assert 'ENTRYPOINT ["bln-search"]' in DOCKERFILE
        assert f"CMD {json.dumps(arguments)}" in DOCKERFILE
        check_call(arguments)
        assert DEPLOYMENTS[name]["selector"]["matchLabels"] == DEPLOYMENTS[name]["template"]["metadata"]["labels"]

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
        assert pod(name)["enableServiceLinks"] is False  # a variable of a service would look like a setting

    def test_folders_of_the_image_are_mounted_from_volumes_that_exist(self, name):
        volumes = {volume["name"]: volume for volume in pod(name)["volumes"]}
        mounts = {mount["mountPath"]: mount["name"] for mount in container(name)["volumeMounts"]}
        assert set(mounts.values()) == volumes.keys()
        claims = [volume["persistentVolumeClaim"] for volume in volumes.values() if "persistentVolumeClaim" in volume]
        assert {("PersistentVolumeClaim", claim["claimName"]) for claim in claims} <= OBJECTS.keys()
        assert all(f"{variable}={path}" in DOCKERFILE for variable, path in FOLDERS.items())
        written = FOLDERS["BLN_SEARCH_HOME" if name == "bln-search-web" else "BLN_SEARCH_CACHE"]
        assert {f"{FOLDERS['BLN_SEARCH_HOME']}/checkpoints", written} <= mounts.keys()

    def test_every_setting_exists_and_is_valid(self, name, monkeypatch):
        own = {variable["name"]: variable["value"] for variable in container(name).get("env", ())}
        (source,) = container(name)["envFrom"]
        for variable, value in {**OBJECTS["ConfigMap", source["configMapRef"]["name"]]["data"], **own}.items():
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

    def test_probes_ask_what_the_program_answers_and_resources_are_bounded(self, name):
        probes = [value for key, value in container(name).items() if key.endswith("Probe")]
        assert probes
        for probe in probes:
            if "exec" in probe:
                program, *words = probe["exec"]["command"]
                assert program == "bln-search"
                check_call(words)
            else:
                assert probe["httpGet"]["path"] in OPENAPI_PATHS
                assert {"name": "Host", "value": "localhost"} in probe["httpGet"]["httpHeaders"]
        limits = container(name)["resources"]["limits"]
        assert "memory" in limits
        assert limits.get("nvidia.com/gpu") == ("1" if name.endswith("gpu") else None)
        assert pod(name)["terminationGracePeriodSeconds"] >= 20


def test_the_service_leads_to_the_port_of_the_web_pods():
    service = OBJECTS["Service", "bln-search-web"]["spec"]
    assert service["selector"] == DEPLOYMENTS["bln-search-web"]["selector"]["matchLabels"]
    (port,), (exposed,) = service["ports"], container("bln-search-web")["ports"]
    assert port["targetPort"] == exposed["name"]
    assert str(exposed["containerPort"]) in container("bln-search-web")["args"]
    assert "bln-search-web" in json.loads(OBJECTS["ConfigMap", "bln-search"]["data"]["BLN_SEARCH_HOSTS"])
    for name in ("bln-search-checkpoints", "bln-search-data"):
        assert OBJECTS["PersistentVolumeClaim", name]["spec"]["accessModes"] == ["ReadWriteMany"]
