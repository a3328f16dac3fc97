"""compose.yaml as Debian's docker-compose reads it, and held against what the gateway needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from gateway.settings import Settings
from tests.deploy.nginx import CONFIGURATION

REQUIRED: Final = "ROLLOUT_GATEWAY_TEST_COMPOSE"
"""Set to `required`, a machine without docker-compose fails its tests instead of skipping them."""

ROOT: Final = Path(__file__).parents[2]
FILES: Final = ("compose.yaml", "deploy/sqlite.compose.yaml")
TOLD: Final = {
    "ROLLOUT_GATEWAY_BACKENDS": "http://gpu-1:8000",
    "ROLLOUT_GATEWAY_KEYS": "key",
    "ROLLOUT_GATEWAY_ADMIN_KEY": "admin",
    "POSTGRES_PASSWORD": "password",
}


def _compose(file: str, *arguments: str, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    binary = shutil.which("docker-compose")
    if binary is None and os.environ.get(REQUIRED) == "required":
        pytest.fail(f"there is no docker-compose here, and {REQUIRED} says that there must be")
    if binary is None:
        pytest.skip("there is no docker-compose here: on Debian apt-get install docker-compose")
    return subprocess.run(
        [binary, "-f", str(ROOT / file), *arguments],
        env={"PATH": os.environ["PATH"], **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def _services(file: str) -> dict[str, Any]:
    told = _compose(file, "config", environ=TOLD)
    assert told.returncode == 0, told.stderr
    services = yaml.safe_load(told.stdout)["services"]
    assert isinstance(services, dict)
    return services


@pytest.mark.parametrize("file", FILES)
def test_it_is_accepted_and_gateways_have_no_rights_that_they_do_not_need(file: str) -> None:
    gateways = {name: each for name, each in _services(file).items() if name.startswith("gateway")}
    settings = Settings()
    assert len(gateways) == (2 if file == "compose.yaml" else 1)
    for gateway in gateways.values():
        assert gateway["read_only"]
        assert gateway["cap_drop"] == ["ALL"]
        assert any(volume.endswith(":/data:rw") for volume in gateway["volumes"])
        assert int(gateway["stop_grace_period"].removesuffix("s")) > settings.stop_notice + settings.stop_grace + 5


@pytest.mark.parametrize("name", TOLD)
def test_what_has_to_be_told_and_is_not_is_an_error_that_names_it(name: str) -> None:
    told = _compose("compose.yaml", "config", environ={each: value for each, value in TOLD.items() if each != name})
    assert told.returncode != 0
    assert name in told.stderr


def test_nginx_knows_the_gateways_by_their_names_and_is_reached_where_it_listens() -> None:
    services = _services("compose.yaml")
    configuration = CONFIGURATION.read_text(encoding="utf-8")
    named = re.findall(r"^ *server (\S+):9090 ", configuration, re.MULTILINE)
    assert named == [name for name in services if name.startswith("gateway")]
    assert services["nginx"]["ports"] == ["127.0.0.1:9090:8080/tcp"]
    assert "listen 8080 " in configuration
    assert services["nginx"]["volumes"] == [f"{CONFIGURATION}:/etc/nginx/nginx.conf:ro"]
    prometheus = (ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text(encoding="utf-8")
    scraped = yaml.safe_load(prometheus)["scrape_configs"]
    assert scraped[0]["static_configs"][0]["targets"] == [f"{name}:9090" for name in named]


def test_a_gpu_brings_vllm_where_it_is_asked_for() -> None:
    services = _services("compose.yaml")
    assert [name for name, service in services.items() if service.get("profiles")] == ["vllm"]
    vllm = services["vllm"]
    assert vllm["profiles"] == ["gpu"]
    assert vllm["deploy"]["resources"]["reservations"]["devices"][0]["capabilities"] == ["gpu"]


def test_the_image_runs_as_nobody() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.findall(r"^USER (\d+):(\d+)$", dockerfile, re.MULTILINE) == [("10001", "10001")]
