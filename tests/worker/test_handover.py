"""A worker gets what it needs of the server's environment, and its own environment holds no secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from mediamill.environment import secret_file
from mediamill.worker.handover import (
    FOR_WORKERS,
    HANDOVER,
    ONLY_WHETHER,
    SECRETS,
    encode_handover,
    plain_of,
)

ONLY_THE_SERVER = {
    "admin_secret",
    "token",
    "worker_key",
    "bridge_secret",
    "telegram_token",
    "alert_webhook_secret",
    "oidc_client_secret",
}
WORKER = """
import json, os
from mediamill.worker.handover import take_handover
take_handover()
from mediamill.settings import Settings
with open("/proc/self/environ") as file:
    shown = file.read()
took = {name: value for name, value in os.environ.items()}
print(json.dumps({"took": took, "shown": shown, "url": Settings().database_url.get_secret_value()}))
"""


def handed(environment: dict[str, str], more: str = "") -> dict[str, str]:
    found: dict[str, str] = json.loads(encode_handover(environment, more))
    return found


def test_of_every_secret_it_is_decided_whether_workers_need_it() -> None:
    assert SECRETS == FOR_WORKERS | ONLY_WHETHER | ONLY_THE_SERVER


@pytest.mark.parametrize("name", sorted(ONLY_THE_SERVER))
@pytest.mark.parametrize("spell", [str.upper, str.lower])
def test_a_secret_of_the_server_stays_there(name: str, spell: object) -> None:
    assert callable(spell)
    variable = spell(f"MEDIAMILL_{name}")
    assert handed({variable: "s3cret"}) == {}
    assert plain_of({variable: "s3cret"}) == {}


def test_workers_do_not_know_where_the_files_of_secrets_are() -> None:
    assert handed({"MEDIAMILL_SECRETS": "/run/secrets", "MEDIAMILL_LOG_LEVEL": "INFO"}) == {
        "MEDIAMILL_LOG_LEVEL": "INFO"
    }


def test_a_worker_knows_that_alerts_are_wanted_but_not_where_they_go() -> None:
    assert handed({"MEDIAMILL_ALERT_WEBHOOK_URL": "https://hooks.example/s3cret"}) == {
        "MEDIAMILL_ALERT_WEBHOOK_URL": "set"
    }


def test_whatever_nobody_named_stays_with_the_server() -> None:
    environment = {"GITHUB_TOKEN": "a", "PGPASSWORD": "b", "MEDIAMILL_NO_SETTING": "c", "PLUGIN_KEY": "d"}
    assert handed(environment) == plain_of(environment) == {}
    assert handed(environment, "plugin_key, OTHER") == {"PLUGIN_KEY": "d"}


def test_what_a_worker_needs_comes_by_the_descriptor_and_is_not_shown() -> None:
    given = {
        **os.environ,
        "MEDIAMILL_DATABASE_URL": "postgresql://a:s3cret@b/c",
        "MEDIAMILL_OPENAI_KEY": "s3cret",
        "MEDIAMILL_LOG_LEVEL": "DEBUG",
        "AWS_SECRET_ACCESS_KEY": "s3cret",
        "HTTPS_PROXY": "http://a:s3cret@proxy",
        "LC_ALL": "C.UTF-8",
    }
    with secret_file(encode_handover(given)) as descriptor:
        for _again in range(2):  # a worker that is started again reads the same
            done = subprocess.run(
                [sys.executable, "-c", WORKER],
                env={**plain_of(given), HANDOVER: str(descriptor)},
                pass_fds=[descriptor],
                capture_output=True,
                check=True,
                timeout=60,
            )
            said = json.loads(done.stdout)
            assert said["url"] == "postgresql://a:s3cret@b/c"
            expected = {name: given[name] for name in given if name.startswith(("MEDIAMILL_", "AWS_", "LC_"))}
            assert said["took"].items() >= expected.items()
            assert said["took"]["HTTPS_PROXY"] == given["HTTPS_PROXY"]
            assert HANDOVER not in said["took"]
            assert "s3cret" not in said["shown"]
            assert "LC_ALL=C.UTF-8" in said["shown"]
