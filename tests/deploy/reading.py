"""What deploy/ says: its files, objects, queries and commands."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
NOT_OURS = {".env", "data", "database", "secrets"}  # what scripts/start.sh makes there

Section = dict[str, list[str]]


def texts() -> dict[str, str]:
    """Every file by its name, and the script that starts the containers."""
    found = [path for path in DEPLOY.rglob("*") if path.is_file()]
    ours = [path for path in found if path.relative_to(DEPLOY).parts[0] not in NOT_OURS]
    return {str(path.relative_to(ROOT)): path.read_text() for path in [*ours, ROOT / "scripts" / "start.sh"]}


def read_yaml(path: Path) -> list[Any]:
    """The documents of a file."""
    return [each for each in yaml.safe_load_all(path.read_text()) if each is not None]


def services() -> dict[str, Any]:
    """The containers of compose.yaml."""
    found: dict[str, Any] = read_yaml(DEPLOY / "compose.yaml")[0]["services"]
    return found


def objects() -> list[dict[str, Any]]:
    """What Kubernetes is told, whatever is applied by hand included."""
    found = [each for path in sorted(KUBERNETES.glob("*.yaml")) for each in read_yaml(path)]
    return [each for each in found if "kind" in each and each["kind"] != "Kustomization"]


def of_kind(kind: str) -> list[dict[str, Any]]:
    """The objects of one kind; there are some."""
    found = [each for each in objects() if each["kind"] == kind]
    assert found, kind
    return found


def pods() -> dict[str, dict[str, Any]]:
    """The pods of all Deployments, by their names."""
    return {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in of_kind("Deployment")}


def adapter_rule() -> dict[str, Any]:
    """What prometheus-adapter makes a metric for the scaler of."""
    (rule,) = read_yaml(KUBERNETES / "prometheus-adapter.yaml")[0]["rules"]["external"]
    found: dict[str, Any] = rule
    return found


def panels() -> list[dict[str, Any]]:
    """Of the dashboard."""
    found: list[dict[str, Any]] = json.loads((DEPLOY / "grafana" / "mediamill.json").read_text())["panels"]
    return found


def rules() -> list[dict[str, Any]]:
    """The alerts of Prometheus."""
    (groups,) = read_yaml(DEPLOY / "prometheus" / "mediamill.rules.yaml")
    return [rule for group in groups["groups"] for rule in group["rules"]]


def queries() -> Iterator[tuple[str, list[str]]]:
    """Every query to Prometheus, with the labels that its legend or text shows."""
    for panel in panels():
        for target in panel["targets"]:
            yield target["expr"], re.findall(r"\{\{\s*(\w+)\s*\}\}", target["legendFormat"])
    for rule in rules():
        yield rule["expr"], re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"]))
    yield adapter_rule()["seriesQuery"], []
    yield adapter_rule()["metricsQuery"], []
    for scaled in of_kind("ScaledObject"):
        yield from ((trigger["metadata"]["query"], []) for trigger in scaled["spec"]["triggers"])


def read_unit(path: Path) -> dict[str, Section]:
    """Sections, keys, and all values of each key; a line that is none of this is an error."""
    unit: dict[str, Section] = {}
    for line in path.read_text().splitlines():
        if line.startswith("["):
            section = unit.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, equals, value = line.partition("=")
            assert equals, line
            section.setdefault(key, []).append(value)
    return unit


def commands() -> dict[str, list[str]]:
    """Every command line of mediamill that containers, pods and units run, or that an alert tells to run."""
    found = {path.name: shlex.split(read_unit(path)["Service"]["ExecStart"][0]) for path in UNITS}
    found |= {f"pod {name}": pod["containers"][0]["command"] for name, pod in pods().items()}
    found["container worker"] = services()["worker"]["command"]
    (image,) = re.findall(r"^CMD (.+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    found["image"] = json.loads(image)
    for rule in rules():
        for told in re.findall(r"mediamill [a-z]+(?: [a-z]+)?", rule["annotations"]["fix"]):
            found[f"alert {rule['alert']}"] = [*told.split(), "--help"]
    return found
