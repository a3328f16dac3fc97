"""Defaults under a file under the environment under flags; and keys that nobody knows."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from gateway.settings import SettingsError, load


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "gateway.yaml"


def test_nothing_given_gives_the_defaults() -> None:
    assert load(environ={"HOME": "/root"}).port == 9090


def test_each_source_is_above_the_one_before(config: Path) -> None:
    config.write_text("port: 1\ncapture: ids\nlog_level: debug\nhost: 127.0.0.2\n")
    settings = load(
        config=config,
        environ={"ROLLOUT_GATEWAY_PORT": "2", "ROLLOUT_GATEWAY_CAPTURE": "stream"},
        flags={"port": 3, "host": None},
    )
    assert (settings.port, settings.capture, settings.log_level, settings.host) == (
        3,
        "stream",
        "debug",
        "127.0.0.2",
    )


def test_backends_are_strings_or_mappings_in_a_file(config: Path) -> None:
    config.write_text(
        "backends:\n"
        "  - http://a:8000,engine=vllm\n"
        "  - url: http://b:8000/v1\n"
        "    name: b\n"
        "    models: [qwen*]\n"
        "    api_key_env: B_KEY\n"
    )
    a, b = load(config=config, environ={"B_KEY": "sk-b"}).backends
    assert (a.url, a.engine) == ("http://a:8000", "vllm")
    assert (b.url, b.name, b.models, b.api_key) == ("http://b:8000", "b", ("qwen*",), SecretStr("sk-b"))


def test_a_variable_holds_several_backends_and_keys() -> None:
    settings = load(
        environ={
            "ROLLOUT_GATEWAY_BACKENDS": "http://a:8000,engine=vllm http://b:8000",
            "ROLLOUT_GATEWAY_KEYS": "one, two",
            "ROLLOUT_GATEWAY_ADMIN_KEY": "admin",
        }
    )
    assert [backend.name for backend in settings.backends] == ["a:8000", "b:8000"]
    assert settings.keys == (SecretStr("one"), SecretStr("two"))
    assert settings.admin_key == SecretStr("admin")


def test_backends_by_flag_take_the_place_of_those_in_the_file(config: Path) -> None:
    config.write_text("backends: [http://a:8000]\n")
    settings = load(config=config, environ={}, flags={"backends": ["http://b:8000"]})
    assert [backend.name for backend in settings.backends] == ["b:8000"]


def test_an_unknown_key_in_the_file_names_the_nearest(config: Path) -> None:
    config.write_text("comit_timeout: 2\n")
    with pytest.raises(SettingsError, match=r"comit_timeout in .*gateway.yaml is unknown: did you mean commit_timeout"):
        load(config=config, environ={})


def test_an_unknown_variable_names_the_nearest() -> None:
    with pytest.raises(
        SettingsError, match="ROLLOUT_GATEWAY_BACKEND is unknown: did you mean ROLLOUT_GATEWAY_BACKENDS"
    ):
        load(environ={"ROLLOUT_GATEWAY_BACKEND": "http://a"})


def test_an_unknown_key_of_a_backend_in_the_file_names_the_nearest(config: Path) -> None:
    config.write_text("backends:\n  - url: http://a\n    engin: vllm\n")
    with pytest.raises(SettingsError, match=r"backends in .*\.0\.engin is unknown: did you mean engine"):
        load(config=config, environ={})


def test_an_unknown_option_of_a_backend_flag_names_the_nearest() -> None:
    with pytest.raises(
        SettingsError, match="--backend: option 'engin' of backend http://a is unknown: did you mean engine"
    ):
        load(environ={}, flags={"backends": ["http://a,engin=vllm"]})


def test_an_unknown_key_that_is_near_nothing_lists_what_is_known() -> None:
    with pytest.raises(SettingsError, match="known are ROLLOUT_GATEWAY_ADMIN_HOST, ROLLOUT_GATEWAY_ADMIN_KEY, "):
        load(environ={"ROLLOUT_GATEWAY_XYZZY": "1"})


def test_a_wrong_value_is_told_where_it_stands_with_every_other(config: Path) -> None:
    config.write_text("capture: exactly\n")
    with pytest.raises(SettingsError) as caught:
        load(config=config, environ={"ROLLOUT_GATEWAY_PORT": "http"}, flags={"idle_timeout": -1.0})
    assert str(caught.value).splitlines() == [
        "ROLLOUT_GATEWAY_PORT: Input should be a valid integer, unable to parse string as an integer",
        f"capture in {config}: Input should be 'exact', 'ids' or 'stream'",
        "--idle-timeout: Input should be greater than 0",
    ]


def test_variables_that_kubernetes_makes_for_a_service_of_our_name_are_not_settings() -> None:
    settings = load(
        environ={
            "ROLLOUT_GATEWAY_SERVICE_HOST": "10.0.0.1",
            "ROLLOUT_GATEWAY_SERVICE_PORT_HTTP": "9090",
            "ROLLOUT_GATEWAY_PORT": "tcp://10.0.0.1:9090",
            "ROLLOUT_GATEWAY_PORT_9090_TCP_ADDR": "10.0.0.1",
        }
    )
    assert (settings.host, settings.port) == ("127.0.0.1", 9090)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("admin_key: sk-1\n", "admin_key in"),
        ("backends:\n  - url: http://a\n    api_key: sk-1\n", "api_key_env names its variable"),
    ],
)
def test_secrets_do_not_stand_in_the_file(config: Path, text: str, says: str) -> None:
    config.write_text(text)
    with pytest.raises(SettingsError, match=says) as caught:
        load(config=config, environ={})
    assert "sk-1" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [("- a\n", "has to be a mapping"), ("a: [\n", "is not YAML"), ("1: 2\n", "has to be a mapping")],
)
def test_a_file_that_is_no_mapping_is_refused(config: Path, text: str, says: str) -> None:
    config.write_text(text)
    with pytest.raises(SettingsError, match=says):
        load(config=config, environ={})


def test_an_empty_file_says_nothing(config: Path) -> None:
    config.write_text("# nothing yet\n")
    assert load(config=config, environ={}).port == 9090


def test_a_file_that_is_not_there_is_an_error(config: Path) -> None:
    with pytest.raises(SettingsError, match="can't be read: No such file"):
        load(config=config, environ={})


def test_an_engine_that_nobody_knows_is_an_error_from_every_source(config: Path) -> None:
    config.write_text("backends:\n  - url: http://a:8000\n    engine: vlm\n")
    for told in (
        {"config": config, "environ": {}},
        {"environ": {"ROLLOUT_GATEWAY_BACKENDS": "http://a:8000,engine=vlm"}},
        {"environ": {}, "flags": {"backends": ["http://a:8000,engine=vlm"]}},
    ):
        with pytest.raises(SettingsError, match=r"engine 'vlm' is unknown: did you mean vllm\?"):
            load(**told)  # type: ignore[arg-type]
