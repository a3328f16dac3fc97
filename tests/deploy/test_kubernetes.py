"""The manifests in deploy/kubernetes fit Kubernetes' own schemas, and the gateway that they start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from gateway.settings import load

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
DOCUMENTS = [
    pytest.param(document, id=f"{path.name}-{document['kind']}-{document['metadata']['name']}")
    for path in sorted(FOLDER.glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
]
VERSIONS = ("1.29", "1.33", "1.37")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("document", DOCUMENTS)
def test_each_document_fits_the_schema_and_has_no_unknown_field(document: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(document, version, strict=True)


def _pod(name: str) -> Any:
    (found,) = (each.values[0] for each in DOCUMENTS if each.id == name)
    assert isinstance(found, dict)
    spec = found["spec"]
    return (spec["jobTemplate"]["spec"] if "jobTemplate" in spec else spec)["template"]["spec"]


GATEWAY = "gateway.yaml-StatefulSet-rollout-gateway"
PRUNE = "prune.yaml-CronJob-rollout-gateway-prune"


def test_a_pod_that_stops_has_time_for_its_calls() -> None:
    pod = _pod(GATEWAY)
    told = {each["name"]: each.get("value", "x") for each in pod["containers"][0]["env"]}
    environ = {name: value for name, value in told.items() if name.startswith("ROLLOUT_GATEWAY_")}
    settings = load(environ=environ | {"ROLLOUT_GATEWAY_DATABASE": "sqlite:///rollouts.db"}, flags={})
    last_words = 5
    assert pod["terminationGracePeriodSeconds"] > settings.stop_notice + settings.stop_grace + last_words
    probe = pod["containers"][0]["readinessProbe"]
    assert settings.stop_notice > probe["periodSeconds"] * probe["failureThreshold"] + probe["timeoutSeconds"]


@pytest.mark.parametrize("name", [GATEWAY, PRUNE])
def test_nothing_of_it_has_rights_that_it_does_not_need(name: str) -> None:
    pod = _pod(name)
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["automountServiceAccountToken"] is False
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
