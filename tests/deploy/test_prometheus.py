"""deploy/prometheus, and a gateway's own metrics, as Prometheus' own tool reads them."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from gateway.scripted import Fault, ScriptedServer, running
from gateway.sight import names
from gateway.sight.names import Name
from tests.gateway.harness import gateway

REQUIRED: Final = "ROLLOUT_GATEWAY_TEST_PROMTOOL"
"""Set to `required`, a machine without promtool fails its tests instead of skipping them."""

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "deploy" / "prometheus"
ALERTS: Final = FOLDER / "alerts.yml"


def promtool(*arguments: str, given: str | None = None) -> str:
    binary = shutil.which("promtool")
    if binary is None and os.environ.get(REQUIRED) == "required":
        pytest.fail(f"there is no promtool here, and {REQUIRED} says that there must be")
    if binary is None:
        pytest.skip("there is no promtool here: Debian's package prometheus has it")
    told = subprocess.run([binary, *arguments], input=given, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    return told.stdout + told.stderr


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_the_configuration_and_its_rules_are_accepted() -> None:
    assert f"SUCCESS: {len(rules())} rules found" in promtool("check", "config", str(FOLDER / "prometheus.yml"))


def test_each_alert_fires_on_what_it_is_for_and_none_on_a_gateway_that_is_well() -> None:
    file = Path(__file__).with_name("alerts.test.yml")
    assert "SUCCESS" in promtool("test", "rules", str(file))
    cases = yaml.safe_load(file.read_text(encoding="utf-8"))["tests"]
    fired = {each["alertname"] for case in cases for each in case["alert_rule_test"] if each["exp_alerts"]}
    silent = {each["alertname"] for case in cases for each in case["alert_rule_test"] if not each["exp_alerts"]}
    assert fired == silent == {rule["alert"] for rule in rules()}


def test_alerts_look_at_metrics_that_there_are_by_labels_that_they_have() -> None:
    known = {each.full: set(each.labels) for each in vars(names).values() if isinstance(each, Name)}
    for rule in rules():
        for used, asked in re.findall(r"\b(rollout_gateway_\w+)(?:\{(.*?)\})?", rule["expr"]):
            labels = known[used.removesuffix("_bucket")]
            assert set(re.findall(r"(\w+)(?:=~|!~|=|!=)", asked)) <= labels, rule["alert"]


def test_each_alert_has_its_paragraph_for_whoever_is_woken_by_it() -> None:
    operations = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([A-Z]\w+)` \|", operations, re.MULTILINE) == [rule["alert"] for rule in rules()]


async def test_the_metrics_of_a_busy_gateway_are_accepted(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    server.faults.extend([Fault(status=503), Fault(after_frames=2)])
    async with running(server) as url, gateway(tmp_path, f"{url},engine=vllm,version=0.32.0") as served:
        calls = [served.chat(session=f"s{number % 3}", stream=bool(number % 2)) for number in range(12)]
        await asyncio.gather(*calls, served.chat(messages=7), return_exceptions=True)
        told = (await served.agent.get("/metrics")).text
    assert told.count("\n") > 150
    assert promtool("check", "metrics", given=told) == "", "promtool has advice"
