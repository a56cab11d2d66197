"""The containers: both run as the user of the host and share the staging folder, seen without a container engine."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from mediamill.settings import Settings
from tests.deploy.reading import pods

ROOT = Path(__file__).resolve().parents[2]
DOCKER = """#!/bin/sh
echo "$@" >>"$ASKED"
cp .env "$ASKED.env"
case "$*" in *" tokens create "*) printf '{\\n  "id": 1,\\n  "token": "mill_of_workers"\\n}\\n' ;; esac
"""


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
    return found


@pytest.mark.spec("C20")
def test_backend_and_bridge_run_as_the_same_user_of_the_host(services: dict[str, Any]) -> None:
    users = {service["user"] for service in services.values()}
    assert len(users) == 1
    assert users.pop().startswith("${CURRENT_UID:?")


@pytest.mark.spec("C20")
def test_backend_and_bridge_share_the_staging_folder(services: dict[str, Any]) -> None:
    bridge = services["whatsapp"]
    staging = bridge["environment"]["BRIDGE_STAGING"]
    assert f"./data/pending_media:{staging}" in bridge["volumes"]
    assert "./data:/data" in services["mediamill"]["volumes"]
    assert services["mediamill"]["environment"]["MEDIAMILL_DATA"] == "/data"


def test_no_container_has_more_rights_than_it_needs(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["read_only"] is True, name
        assert "/tmp" in service["tmpfs"], name
        assert 0 < service["pids_limit"] <= 4096, name
        assert not service.keys() & {"privileged", "cap_add", "devices", "pid", "network_mode"}, name


def test_what_a_worker_downloads_is_on_a_volume_not_in_memory(services: dict[str, Any]) -> None:
    worker = services["worker"]
    (volume,) = worker["volumes"]
    assert worker["environment"]["MEDIAMILL_DATA"].startswith(f"{volume}/")
    assert f"--mode=1777 {volume}" in (ROOT / "deploy" / "Dockerfile").read_text()


@pytest.mark.parametrize("name", ["Dockerfile", "bridge.Dockerfile"])
def test_an_image_does_not_run_as_root(name: str) -> None:
    lines = (ROOT / "deploy" / name).read_text().splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1])
    after = lines[lines.index(f"USER {users[-1]}") :]
    assert not [line for line in after if line.startswith(("RUN ", "COPY ", "ADD "))]


def test_the_user_of_the_image_is_that_of_the_pods() -> None:
    """It has a name in the image, which PostgreSQL asks for."""
    (made,) = re.findall(r"useradd --uid (\d+)", (ROOT / "deploy" / "Dockerfile").read_text())
    assert {pod["securityContext"]["runAsUser"] for pod in pods().values()} == {int(made)}


def test_every_file_that_the_images_copy_is_there(services: dict[str, Any]) -> None:
    for service in (each for each in services.values() if "build" in each):
        context = (ROOT / "deploy" / service["build"]["context"]).resolve()
        dockerfile = context / service["build"]["dockerfile"]
        for line in dockerfile.resolve().read_text().splitlines():
            if line.startswith("COPY"):
                assert all((context / name).exists() for name in line.split()[1:-1]), line


@pytest.mark.spec("C20")
def test_the_start_script_finds_out_who_calls_and_keeps_the_secrets(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "deploy").mkdir()
    shutil.copy(ROOT / "scripts" / "start.sh", tmp_path / "scripts")
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(DOCKER)
    docker.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{docker.parent}:{os.environ['PATH']}",
        "ASKED": str(tmp_path / "asked"),
    }

    def start() -> dict[str, str]:
        subprocess.run(
            ["bash", tmp_path / "scripts" / "start.sh", "--detach"], env=environment, check=True, timeout=60
        )
        lines = (tmp_path / "asked.env").read_text().splitlines()
        assert len(lines) == len({line.partition("=")[0] for line in lines})
        return dict(line.split("=", 1) for line in lines)

    first = start()
    assert (first["CURRENT_UID"], first["CURRENT_GID"]) == (str(os.getuid()), str(os.getgid()))
    assert len(first["MEDIAMILL_ADMIN_SECRET"]) == len(first["MEDIAMILL_BRIDGE_SECRET"]) == 64
    assert (tmp_path / "asked").read_text() == "compose up --build --detach\n"
    assert not (tmp_path / "deploy" / "secrets").exists()
    assert start() == first
    assert stat.S_IMODE((tmp_path / "deploy" / ".env").stat().st_mode) == 0o600
    assert (tmp_path / "deploy" / "data" / "pending_media").is_dir()
    assert not first.keys() & {"MEDIAMILL_DATABASE_URL", "MEDIAMILL_REDIS_URL", "MEDIAMILL_QUEUE_MODE"}

    environment["COMPOSE_PROFILES"] = "redis,postgres"
    chosen = start()
    assert chosen.items() > first.items()
    password = first["POSTGRES_PASSWORD"]
    assert chosen["MEDIAMILL_DATABASE_URL"] == f"postgresql://mediamill:{password}@postgres/mediamill"
    found = Settings.model_validate(
        {name.removeprefix("MEDIAMILL_").lower(): value for name, value in chosen.items()}
    )
    assert found.queue_mode == "hybrid"
    assert start() == chosen

    environment["COMPOSE_PROFILES"] = "workers"
    (tmp_path / "asked").unlink()
    start()
    token = tmp_path / "deploy" / "secrets" / "worker_token"
    assert token.read_text() == "mill_of_workers\n"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    first_server, make_token, everything = (tmp_path / "asked").read_text().splitlines()
    assert first_server == "compose up --build --detach mediamill"
    assert make_token.startswith("compose exec -T mediamill .venv/bin/mediamill tokens create ")
    assert " --scope worker " in make_token
    (tmp_path / "asked").unlink()
    start()
    assert (tmp_path / "asked").read_text() == f"{everything}\n" == "compose up --build --detach\n"


def test_what_a_profile_adds_is_reached_by_the_name_that_the_start_script_writes(
    services: dict[str, Any],
) -> None:
    script = (ROOT / "scripts" / "start.sh").read_text()
    profiles = {name: service["profiles"] for name, service in services.items() if "profiles" in service}
    assert profiles == {"worker": ["workers"], "postgres": ["postgres"], "redis": ["redis"]}
    assert "@postgres/mediamill" in script
    assert "redis://redis:6379/0" in script
    passed = services["mediamill"]["environment"]
    for name in re.findall(r"keep (MEDIAMILL_\w+)", script):
        assert name in passed, name


def test_no_other_container_opens_the_embedded_database(services: dict[str, Any]) -> None:
    """Its processes are told from dead ones by their ids, which mean nothing in another container."""
    users = [name for name, service in services.items() if "./data:/data" in service.get("volumes", [])]
    assert users == ["mediamill"]
    worker = services["worker"]["environment"]
    assert worker["MEDIAMILL_SERVER"] == "http://mediamill:8420"
    assert "MEDIAMILL_DATABASE_URL" not in worker


def test_without_docker_the_start_script_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "deploy").mkdir()
    shutil.copy(ROOT / "scripts" / "start.sh", tmp_path / "scripts")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("dirname", "grep", "head", "od", "tr", "touch", "sed", "id", "mkdir"):
        (tools / name).symlink_to(str(shutil.which(name)))
    run = subprocess.run(
        [str(shutil.which("bash")), tmp_path / "scripts" / "start.sh"],
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert run.returncode == 1
    assert "fix: install Docker" in run.stderr
