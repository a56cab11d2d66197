"""The manifests: complete, consistent with each other, and no more rights than needed."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest

from mediamill.db.connection import Database
from tests.deploy.reading import KUBERNETES, objects, of_kind, pods, read_yaml

REQUIRED = {
    "Namespace": ("v1", ()),
    "ConfigMap": ("v1", ("data",)),
    "Secret": ("v1", ("type", "stringData")),
    "PersistentVolumeClaim": ("v1", ("spec.accessModes", "spec.resources.requests.storage")),
    "Service": ("v1", ("spec.selector", "spec.ports")),
    "Deployment": ("apps/v1", ("spec.selector.matchLabels", "spec.template.spec.containers")),
    "PodDisruptionBudget": ("policy/v1", ("spec.maxUnavailable", "spec.selector.matchLabels")),
    "HorizontalPodAutoscaler": (
        "autoscaling/v2",
        ("spec.scaleTargetRef", "spec.minReplicas", "spec.maxReplicas", "spec.metrics"),
    ),
    "ScaledObject": ("keda.sh/v1alpha1", ("spec.scaleTargetRef.name", "spec.triggers")),
}
BY_HAND = {"secret.example.yaml", "remote-worker.yaml", "scale-by-hpa.yaml", "scale-by-keda.yaml"}
VERSIONS = ("1.30", "1.34")  # the oldest that clouds still offer, and a new one
OF_OTHERS = {"ScaledObject"}  # KEDA's, which has no schema here
NOT_AN_OBJECT = {"kustomization.yaml", "prometheus-adapter.yaml"}


def find(tree: Any, path: str) -> Any:
    for step in path.split("."):
        tree = tree[step]
    return tree


@pytest.mark.parametrize("each", objects(), ids=lambda each: f"{each['kind']} {each['metadata']['name']}")
def test_an_object_has_what_its_kind_requires(each: dict[str, Any]) -> None:
    version, paths = REQUIRED[each["kind"]]
    assert each["apiVersion"] == version
    assert all(find(each, path) for path in paths)
    if each["kind"] != "Namespace":
        assert each["metadata"]["namespace"] == of_kind("Namespace")[0]["metadata"]["name"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("each", objects(), ids=lambda each: f"{each['kind']} {each['metadata']['name']}")
def test_an_object_is_as_the_schema_of_kubernetes_says(each: dict[str, Any], version: str) -> None:
    if each["kind"] not in OF_OTHERS:
        kubernetes_validate.validate(each, version, strict=True)


def test_the_schema_finds_a_word_that_it_does_not_know() -> None:
    wrong = {**of_kind("Service")[0], "spec": {**of_kind("Service")[0]["spec"], "port": 80}}
    with pytest.raises(kubernetes_validate.ValidationError, match="port"):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


def test_every_file_is_applied_at_once_or_by_hand() -> None:
    listed = set(read_yaml(KUBERNETES / "kustomization.yaml")[0]["resources"])
    assert listed | BY_HAND | NOT_AN_OBJECT == {path.name for path in KUBERNETES.glob("*.yaml")}
    assert not listed & BY_HAND


def test_every_selector_finds_the_pods_that_are_meant_and_no_others() -> None:
    made = {each["metadata"]["name"]: each["spec"] for each in of_kind("Deployment")}
    labels = {name: spec["template"]["metadata"]["labels"] for name, spec in made.items()}

    def chosen(selector: dict[str, str]) -> list[str]:
        return [name for name, given in labels.items() if selector.items() <= given.items()]

    for name, spec in made.items():
        assert chosen(spec["selector"]["matchLabels"]) == [name]
    assert chosen(of_kind("Service")[0]["spec"]["selector"]) == ["mediamill"]
    budget = of_kind("PodDisruptionBudget")[0]["spec"]["selector"]["matchLabels"]
    assert chosen(budget) == ["mediamill-worker"]
    assert of_kind("HorizontalPodAutoscaler")[0]["spec"]["scaleTargetRef"]["name"] in made


def test_a_deployment_that_is_scaled_does_not_say_how_many() -> None:
    counts = {each["metadata"]["name"]: each["spec"].get("replicas") for each in of_kind("Deployment")}
    # One key is one process, and files of several servers need care: see docs/how-to/many-machines.md.
    assert counts == {"mediamill": 1, "mediamill-worker": None, "mediamill-remote-worker": 1}


@pytest.mark.parametrize("name", pods())
def test_a_pod_has_no_more_rights_than_it_needs(name: str) -> None:
    pod = pods()[name]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    for container in pod["containers"]:
        rights = container["securityContext"]
        assert rights["allowPrivilegeEscalation"] is False
        assert rights["readOnlyRootFilesystem"] is True
        assert rights["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("name", pods())
def test_what_a_pod_writes_to_is_mounted(name: str) -> None:
    pod = pods()[name]
    (container,) = pod["containers"]
    mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert mounted.keys() - {"/run/secrets/mediamill"} == {"/data", "/tmp"}
    assert set(mounted.values()) == {volume["name"] for volume in pod["volumes"]}
    shared = of_kind("ConfigMap")[0]["data"]
    given = {each["name"]: each.get("value") for each in container["env"]}
    assert given.get("MEDIAMILL_DATA", shared["MEDIAMILL_DATA"]) == "/data"


def test_claims_that_pods_name_are_there() -> None:
    claims = {each["metadata"]["name"] for each in of_kind("PersistentVolumeClaim")}
    for pod in pods().values():
        for volume in pod["volumes"]:
            assert volume.get("persistentVolumeClaim", {}).get("claimName") in {None, *claims}


@pytest.mark.parametrize("name", pods())
def test_no_variable_of_a_service_is_taken_for_a_setting(name: str) -> None:
    """Kubernetes would set MEDIAMILL_PORT=tcp://… for a Service named mediamill."""
    assert pods()[name]["enableServiceLinks"] is False


async def test_a_worker_that_is_told_to_leave_may_finish_the_longest_job(database: Database) -> None:
    async with database.connection() as connection:
        longest = await connection.fetchval("select max(timeout_seconds) from pools")
        pools = await connection.fetch("select name from pools")
    for name, pod in pods().items():
        if name != "mediamill":
            assert pod["terminationGracePeriodSeconds"] > longest
    served = pods()["mediamill-remote-worker"]["containers"][0]["command"][-1].split(",")
    assert set(served) <= {row["name"] for row in pools}
