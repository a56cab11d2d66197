"""Dashboard, alerts and scalers ask only for what a running server tells."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mediamill.api.scopes import OPEN_PATHS
from mediamill.db.connection import Database
from tests.api.serving import SECRET, Served, serve
from tests.deploy.counting import count_images, make_history
from tests.deploy.reading import DEPLOY, of_kind, pods, queries, read_yaml
from tests.dispatch.redis_server import RedisServer, redis_server  # noqa: F401

OF_PROMETHEUS = {"instance", "job"}  # labels that a scrape adds
METRIC = re.compile(r"\b(mediamill_\w+|up)\b(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(=~|!=|!~|=)\s*"([^"]*)"')

Exported = dict[str, dict[str, set[str]]]


async def scrape(served: Served) -> Exported:
    """Every metric with its labels and their values, as Prometheus reads them."""
    told = (await served.client.get("/metrics")).text
    found: Exported = {"up": {}}
    for family in text_string_to_metric_families(told):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                labels.setdefault(label, set()).add(value)
    return found


def find_faults(query: str, shown: list[str], exported: Exported) -> list[str]:
    """Metrics, labels and values that nobody tells."""
    known = set(OF_PROMETHEUS)
    faults = []
    for name, selector in METRIC.findall(query):
        if name not in exported:
            faults.append(name)
        labels = exported.get(name, {})
        known |= set(labels)
        for label, sign, value in MATCHER.findall(selector):
            told = labels.get(label, set())
            wanted = set(value.split("|")) if "~" in sign else {value}
            if label not in OF_PROMETHEUS and not wanted <= told:
                faults.append(f"{name}{{{label}{sign}{value}}}")
    grouped = [label.strip() for names in re.findall(r"by \(([^)]*)\)", query) for label in names.split(",")]
    return faults + [label for label in (*grouped, *shown) if label not in known]


@pytest.mark.spec("E33")
async def test_every_query_asks_for_metrics_and_labels_that_a_server_tells(
    database: Database,
    tmp_path: Path,
    redis_server: RedisServer,  # noqa: F811
) -> None:
    count_images()
    async with serve(database, tmp_path, queue_mode="hybrid", redis_url=redis_server.url) as served:
        await make_history(served)
        exported = await scrape(served)
    asked = list(queries())
    assert len(asked) > 30
    assert {query: faults for query, shown in asked if (faults := find_faults(query, shown, exported))} == {}
    named = {name for query, _ in asked for name, _ in METRIC.findall(query)}
    assert {name for name in exported if not name.endswith("_created")} - named == set(), "shown nowhere"


async def test_a_query_for_what_nobody_tells_is_a_fault(database: Database, tmp_path: Path) -> None:
    async with serve(database, tmp_path) as served:
        exported = await scrape(served)
    assert find_faults("sum(mediamill_jobs_lost)", [], exported) == ["mediamill_jobs_lost"]
    assert find_faults('mediamill_jobs{state="lost"}', [], exported) == ["mediamill_jobs{state=lost}"]
    assert find_faults("max by (pool) (mediamill_workers)", ["owner"], exported) == ["pool", "owner"]


async def test_every_probe_and_every_scrape_gets_an_answer(database: Database, tmp_path: Path) -> None:
    """As in a cluster: beyond loopback, probes without a secret, the scrape with it."""
    server = pods()["mediamill"]["containers"][0]
    probes = {server[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}
    assert server["readinessProbe"]["httpGet"]["path"] == "/health"
    assert probes <= OPEN_PATHS
    scraped = read_yaml(DEPLOY / "prometheus" / "prometheus.yaml")[0]["scrape_configs"][0]
    async with serve(database, tmp_path, pages=True, host="0.0.0.0") as served:
        at = f"http://127.0.0.1:{served.app.state.deps.settings.port}"
        for path in probes:
            assert (await served.client.get(at + path)).status_code == 200, path
        assert (await served.client.get(at + scraped["metrics_path"])).status_code == 401
        shown = {"Authorization": f"Bearer {SECRET}"}
        answer = await served.client.get(at + scraped["metrics_path"], headers=shown)
        assert answer.status_code == 200


def test_both_scalers_mean_the_same() -> None:
    (hpa,), (keda,) = of_kind("HorizontalPodAutoscaler"), of_kind("ScaledObject")
    external = hpa["spec"]["metrics"][0]["external"]
    trigger = keda["spec"]["triggers"][0]["metadata"]
    rule = read_yaml(DEPLOY / "kubernetes" / "prometheus-adapter.yaml")[0]["rules"]["external"][0]
    assert external["metric"]["name"] == rule["name"]["as"]
    assert rule["metricsQuery"] == trigger["query"]
    assert external["target"]["averageValue"] == trigger["threshold"]
    assert hpa["spec"]["maxReplicas"] == keda["spec"]["maxReplicaCount"]
    assert hpa["spec"]["scaleTargetRef"] == keda["spec"]["scaleTargetRef"]
