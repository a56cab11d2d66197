"""Whatever deploy/ names is there: settings, commands, ports, paths, images. And it gives nothing away."""

from __future__ import annotations

import contextlib
import re
import tomllib

import pytest
import typer

from mediamill.cli.command import build_app
from mediamill.settings import Settings
from tests.deploy.reading import (
    DEPLOY,
    ROOT,
    UNITS,
    commands,
    of_kind,
    panels,
    pods,
    read_unit,
    read_yaml,
    services,
    texts,
)

SETTINGS = {f"MEDIAMILL_{name}".upper() for name in Settings.model_fields}
SECRETS = ("SECRET", "PASSWORD", "KEY", "TOKEN", "DATABASE_URL")
PORT = str(Settings.model_fields["port"].default)


@pytest.mark.parametrize("name", texts())
def test_every_setting_that_is_named_exists(name: str) -> None:
    named = set(re.findall(r"\bMEDIAMILL_[A-Z_]+", texts()[name]))
    assert named - SETTINGS == set()


def test_every_setting_of_the_bridge_is_one_that_it_reads() -> None:
    read = (ROOT / "bridges" / "whatsapp" / "src" / "main.mjs").read_text()
    given = [name for name in services()["whatsapp"]["environment"] if name.startswith("BRIDGE_")]
    assert given
    assert [name for name in given if name not in read] == []


@pytest.mark.parametrize("where", commands())
def test_every_command_is_one_that_there_is(where: str) -> None:
    program, *words = commands()[where]
    assert program.rsplit("/", 1)[-1] == "mediamill"
    command = typer.main.get_command(build_app())
    path = "mediamill"
    while hasattr(command, "commands"):
        path, command = f"{path} {words[0]}", command.commands[words.pop(0)]
    with contextlib.suppress(typer.Exit, SystemExit):
        command.make_context(path, words)  # parses every option and its value, and runs nothing


def test_programs_lie_where_image_and_notes_put_them() -> None:
    image = (DEPLOY / "Dockerfile").read_text()
    assert "WORKDIR /mediamill\n" in image
    for pod in pods().values():
        assert pod["containers"][0]["command"][0] == "/mediamill/.venv/bin/mediamill"
    notes = (ROOT / "docs" / "how-to" / "systemd.md").read_text()
    for path in UNITS:
        program = read_unit(path)["Service"]["ExecStart"][0].split()[0]
        assert program == "/opt/mediamill/.venv/bin/mediamill"
        assert program.removesuffix("/bin/mediamill") in notes


def test_every_port_is_the_default_one() -> None:
    assert f"EXPOSE {PORT}\n" in (DEPLOY / "Dockerfile").read_text()
    assert services()["mediamill"]["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert services()["whatsapp"]["environment"]["BRIDGE_BACKEND"].endswith(f":{PORT}")
    assert services()["worker"]["environment"]["MEDIAMILL_SERVER"].endswith(f":{PORT}")
    (server,) = (pod["containers"][0] for name, pod in pods().items() if name == "mediamill")
    assert server["ports"] == [{"name": "http", "containerPort": int(PORT)}]
    assert {"name": "MEDIAMILL_PORT", "value": PORT} in server["env"]
    assert [port["port"] for each in of_kind("Service") for port in each["spec"]["ports"]] == [int(PORT)]
    scraped = read_yaml(DEPLOY / "prometheus" / "prometheus.yaml")[0]["scrape_configs"][0]
    assert scraped["static_configs"] == [{"targets": [f"127.0.0.1:{PORT}"]}]


def test_every_image_of_ours_has_one_name_and_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    named = {service["image"] for service in services().values()}
    named |= {container["image"] for pod in pods().values() for container in pod["containers"]}
    ours = {name for name in named if name.startswith("mediamill")}
    assert ours == {f"mediamill:{version}", f"mediamill-whatsapp:{version}"}
    assert all(":" in name and not name.endswith(":latest") for name in named)


def test_no_secret_is_in_the_repository() -> None:
    for secret in of_kind("Secret"):
        assert set(secret["stringData"].values()) == {""}
    for service in services().values():
        for name, value in service.get("environment", {}).items():
            assert not name.endswith(SECRETS) or value is None or value.startswith("${"), name
    for name, text in texts().items():
        assert not re.search(r"://\w+:\w+@|\b[0-9a-f]{32,}\b|whsec_\w{8}|BEGIN [A-Z ]*PRIVATE KEY", text), (
            name
        )


def test_no_two_panels_lie_on_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        spots = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not spots & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= spots
    assert len({panel["id"] for panel in panels()}) == len(panels())
