"""The units: as systemd reads them, and with all that confined children need."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.reading import DEPLOY, UNITS, read_unit

ANALYZE = shutil.which("systemd-analyze")
EXPOSURE_TENTHS = 25
KNOWN = {
    "Unit": "Description Documentation Wants After StartLimitIntervalSec",
    "Install": "WantedBy",
    "Service": """Type User Group Environment EnvironmentFile ExecStart StateDirectory StateDirectoryMode UMask Restart
        RestartSec KillMode TimeoutStopSec OOMPolicy LimitNOFILE NoNewPrivileges CapabilityBoundingSet ProtectSystem
        ProtectHome PrivateTmp ProtectProc ProtectClock ProtectHostname ProtectKernelLogs ProtectKernelModules
        ProtectKernelTunables ProtectControlGroups LockPersonality RestrictNamespaces RestrictRealtime RestrictSUIDSGID
        RestrictAddressFamilies DevicePolicy DeviceAllow SystemCallArchitectures SystemCallErrorNumber
        SystemCallFilter LoadCredential""",
}
OF_CHILDREN = {"seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"}
# They would break models and Node.js, the sign of life of workers, the embedded database, graphics cards.
BREAKING = {"MemoryDenyWriteExecute", "ProcSubset", "RemoveIPC", "PrivateDevices", "PrivateUsers"}
by_name = pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)


@by_name
def test_a_unit_has_known_keys_only(path: Path) -> None:
    unit = read_unit(path)
    assert unit.keys() == KNOWN.keys()
    for section, keys in unit.items():
        assert set(keys) - set(KNOWN[section].split()) == set()


@pytest.mark.skipif(ANALYZE is None, reason="systemd is not installed; known keys are checked above")
@by_name
def test_systemd_finds_no_fault_in_a_unit(path: Path, tmp_path: Path) -> None:
    here, environment = tmp_path / path.name, tmp_path / "environment"
    environment.symlink_to(sys.prefix)  # whose own path may have a space in it
    here.write_text(path.read_text().replace("/opt/mediamill/.venv", str(environment)))
    command = [str(ANALYZE), "verify", "--man=no", str(here)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    about_ours = [line for line in run.stderr.splitlines() if "mediamill" in line]
    assert about_ours == []


@pytest.mark.skipif(ANALYZE is None, reason="systemd is not installed")
@by_name
def test_systemd_finds_a_unit_little_exposed(path: Path) -> None:
    """Its own measure, of 0 to 10; what is left is network, devices of graphics cards, and /proc."""
    options = ["--offline=yes", "--no-pager", f"--threshold={EXPOSURE_TENTHS}"]
    run = subprocess.run(
        [str(ANALYZE), "security", *options, str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert run.returncode == 0, run.stdout[-300:]


@by_name
def test_the_children_of_a_unit_can_confine_themselves(path: Path) -> None:
    service = read_unit(path)["Service"]
    allowed = {name for line in service["SystemCallFilter"] for name in line.split()}
    assert allowed >= {"@system-service", *OF_CHILDREN}
    assert service["NoNewPrivileges"] == ["yes"]
    families = set(service["RestrictAddressFamilies"][0].split())
    assert families == {"AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK"}
    assert not BREAKING & service.keys()


@by_name
def test_a_unit_lets_jobs_finish_and_outlives_a_child_that_is_killed(path: Path) -> None:
    service = read_unit(path)["Service"]
    assert service["KillMode"] == ["mixed"]
    assert service["OOMPolicy"] == ["continue"]
    assert service["Restart"] == ["on-failure"]


@by_name
def test_a_unit_runs_as_the_user_that_is_made_and_writes_where_it_may(path: Path) -> None:
    service = read_unit(path)["Service"]
    users = (DEPLOY / "systemd" / "mediamill.sysusers.conf").read_text()
    folders = (DEPLOY / "systemd" / "mediamill.tmpfiles.conf").read_text()
    (user,) = service["User"]
    assert re.search(rf'^u {user} - "[^"]+" /var/lib/mediamill \S+$', users, re.MULTILINE)
    (folder,) = service["StateDirectory"]
    assert service["Environment"][0] == f"MEDIAMILL_DATA=/var/lib/{folder}"
    assert f"d /var/lib/{folder} 0700 {user} {user} -\n" in folders
    (settings, *_) = (name.lstrip("-") for name in service["EnvironmentFile"])
    assert f"d {Path(settings).parent} 0750 root {user} -\n" in folders
    assert service["ProtectSystem"] == ["strict"]
