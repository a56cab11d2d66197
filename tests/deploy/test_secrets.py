"""Workers of deploy/ get the secrets that they need as files, and none in their environment."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mediamill.worker.handover import FOR_WORKERS, SECRETS
from tests.deploy.reading import DEPLOY, of_kind, pods, read_unit, read_yaml, services

SECRET_VARIABLES = {f"MEDIAMILL_{name}".upper() for name in SECRETS}
WORKER_UNIT = DEPLOY / "systemd" / "mediamill-worker@.service"
SERVER_UNIT = DEPLOY / "systemd" / "mediamill.service"
WORKER_PODS = [name for name in pods() if "worker" in name]
MAY_HAVE = {f"MEDIAMILL_{name}".upper() for name in FOR_WORKERS} | {
    "MEDIAMILL_WORKER_KEY",
    "MEDIAMILL_BUCKET_KEY_ID",
}


def sources(volume: dict[str, Any]) -> list[dict[str, Any]]:
    """The secrets that a volume is made of."""
    if "secret" in volume:
        return [{"name": volume["secret"]["secretName"], **volume["secret"]}]
    return [each["secret"] for each in volume.get("projected", {}).get("sources", [])]


def test_the_container_of_a_worker_has_one_secret_a_token_in_a_file() -> None:
    worker = services()["worker"]
    assert not SECRET_VARIABLES & worker["environment"].keys()
    assert worker["environment"]["MEDIAMILL_SECRETS"] == "/run/secrets"
    assert worker["secrets"] == [{"source": "worker_token", "target": "MEDIAMILL_TOKEN"}]
    assert read_yaml(DEPLOY / "compose.yaml")[0]["secrets"].keys() == {"worker_token"}


def test_the_unit_of_a_worker_does_not_read_the_settings_of_the_server() -> None:
    service, server = (read_unit(path)["Service"] for path in (WORKER_UNIT, SERVER_UNIT))
    read, of_the_server = (
        {name.lstrip("-") for name in each["EnvironmentFile"]} for each in (service, server)
    )
    assert not read & of_the_server
    assert not SECRET_VARIABLES & {line.partition("=")[0] for line in service["Environment"]}
    assert "MEDIAMILL_SECRETS=%d" in service["Environment"]
    assert service["LoadCredential"] == ["MEDIAMILL:/etc/mediamill/worker-%i"]


@pytest.mark.parametrize("name", WORKER_PODS)
def test_the_pod_of_a_worker_has_the_secrets_that_it_needs_in_files(name: str) -> None:
    pod = pods()[name]
    (container,) = pod["containers"]
    given = {each["name"]: each for each in container["env"]}
    assert not SECRET_VARIABLES & given.keys()
    assert not re.search("secretKeyRef|secretRef", str(container))
    assert not SECRET_VARIABLES & of_kind("ConfigMap")[0]["data"].keys()
    (mounted,) = (each for each in container["volumeMounts"] if each["name"] == "secrets")
    assert mounted["mountPath"] == given["MEDIAMILL_SECRETS"]["value"]
    (volume,) = (each for each in pod["volumes"] if each["name"] == "secrets")
    for source in sources(volume):
        if source["name"] == of_kind("Secret")[0]["metadata"]["name"]:  # the server's: never as a whole
            assert {item["key"] for item in source["items"]} <= MAY_HAVE
            assert all(item["key"] == item["path"] for item in source["items"])


def test_a_pod_beside_the_database_cannot_start_without_its_address() -> None:
    """It would start an embedded database of its own."""
    (volume,) = (each for each in pods()["mediamill-worker"]["volumes"] if each["name"] == "secrets")
    required = [item["key"] for each in sources(volume) if not each.get("optional") for item in each["items"]]
    assert required == ["MEDIAMILL_DATABASE_URL"]
    assert set(required) <= of_kind("Secret")[0]["stringData"].keys()
