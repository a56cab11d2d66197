"""Prometheus itself reads deploy/: its queries, its rules, what a server tells; and rules fire when they should."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from mediamill.db.connection import Database
from tests.api.serving import serve
from tests.deploy.counting import count_images, make_history
from tests.deploy.reading import DEPLOY, ROOT, queries

RULES = DEPLOY / "prometheus" / "mediamill.rules.yaml"
FOUND = ROOT / ".tools" / "promtool"


def promtool(*words: object, given: str = "") -> str:
    """What it says; it finds no fault."""
    program = os.environ.get("PROMTOOL") or FOUND.read_text().strip()
    done = subprocess.run(
        [program, *map(str, words)], input=given, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_prometheus_takes_the_rules_and_the_configuration() -> None:
    assert "rules found" in promtool("check", "rules", RULES)
    promtool("check", "config", "--syntax-only", DEPLOY / "prometheus" / "prometheus.yaml")


def test_every_query_of_the_dashboard_and_the_scalers_is_one(tmp_path: Path) -> None:
    asked = [query.replace("$__rate_interval", "5m") for query, _ in queries()]
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(asked)]
    path = tmp_path / "queries.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    assert f"{len(asked)} rules found" in promtool("check", "rules", path)


def test_a_query_that_is_none_is_found(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(
        yaml.safe_dump({"groups": [{"name": "a", "rules": [{"record": "a:b", "expr": "max(("}]}]})
    )
    with pytest.raises(AssertionError, match="parse error"):
        promtool("check", "rules", path)


@pytest.mark.spec("E33")
async def test_prometheus_finds_no_fault_in_what_a_server_tells(database: Database, tmp_path: Path) -> None:
    count_images()
    async with serve(database, tmp_path) as served:
        await make_history(served)
        told = (await served.client.get("/metrics")).text
    promtool("check", "metrics", given=told)


def check_alert(
    tmp_path: Path, name: str, at: str, series: dict[str, str], labels: dict[str, str] | None
) -> None:
    """At that time the alert is there with these labels, or (None) it is not; the series are told every minute."""
    severity = {
        rule["alert"]: rule["labels"]
        for group in yaml.safe_load(RULES.read_text())["groups"]
        for rule in group["rules"]
    }[name]
    expected = [] if labels is None else [{"exp_labels": {**severity, **labels}}]
    case: dict[str, Any] = {
        "interval": "1m",
        "input_series": [{"series": key, "values": values} for key, values in series.items()],
        "alert_rule_test": [{"alertname": name, "eval_time": at, "exp_alerts": expected}],
    }
    path = tmp_path / "case.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [str(without_annotations(tmp_path))], "tests": [case]}))
    promtool("test", "rules", path)


def without_annotations(tmp_path: Path) -> Path:
    """The rules, less their words."""
    rules = yaml.safe_load(RULES.read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            del rule["annotations"]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(rules))
    return path


def test_a_pool_that_nobody_serves_is_told_and_one_that_moves_is_not(tmp_path: Path) -> None:
    waiting = 'mediamill_oldest_waiting_seconds{instance="a",pool="video"}'
    claims = 'mediamill_claims_total{instance="a",pool="video"}'
    check_alert(
        tmp_path, "MediamillPoolStuck", "40m", {waiting: "0+60x60", claims: "5+0x60"}, {"pool": "video"}
    )
    check_alert(tmp_path, "MediamillPoolStuck", "40m", {waiting: "0+60x60", claims: "5+1x60"}, None)


def test_the_same_figure_of_two_servers_is_not_added_up(tmp_path: Path) -> None:
    """Seven deaths that two servers tell of are seven, not fourteen."""
    both = {f'mediamill_jobs_failed_total{{instance="{each}"}}': "0x5 7x30" for each in "ab"}
    check_alert(tmp_path, "MediamillJobsDie", "10m", both, None)


def test_a_disk_that_is_nearly_full_names_its_server(tmp_path: Path) -> None:
    series = {
        'mediamill_disk_free_bytes{instance="a"}': "4x30",
        'mediamill_disk_bytes{instance="a"}': "100x30",
        'mediamill_disk_free_bytes{instance="b"}': "50x30",
        'mediamill_disk_bytes{instance="b"}': "100x30",
    }
    check_alert(tmp_path, "MediamillDiskFull", "10m", series, {"instance": "a"})


@pytest.mark.parametrize(("last", "told"), [("0x60", True), ("0+60x60", False)])
def test_sweeps_that_stopped_are_told(tmp_path: Path, last: str, told: bool) -> None:
    series = {'mediamill_chore_last_run_timestamp_seconds{instance="a",chore="sweep"}': last}
    check_alert(tmp_path, "MediamillSweepsStopped", "30m", series, {} if told else None)
