"""Settings that fit together, and those that don't."""

import pytest
from pydantic import SecretStr, ValidationError

from gateway.settings import BackendSettings, Settings, is_loopback


def test_the_defaults_serve_on_loopback_into_a_file_beside() -> None:
    settings = Settings()
    assert (settings.host, settings.port, settings.database) == ("127.0.0.1", 9090, "sqlite:///rollouts.db")
    assert (settings.capture, settings.commit_timeout, settings.keepalive_interval) == ("exact", 1.0, 10.0)
    assert settings.backends == ()


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().port = 1  # type: ignore[misc]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost"])
def test_loopback_is_this_machine_alone(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "gateway.example", "127.0.0.1.example"])  # noqa: S104
def test_whatever_else_others_may_reach(host: str) -> None:
    assert not is_loopback(host)


def test_administration_is_told_from_the_rest_by_its_port() -> None:
    with pytest.raises(ValidationError, match="told from the rest by its port"):
        Settings(port=9090, admin_port=9090)


def test_an_empty_key_would_let_everyone_in() -> None:
    with pytest.raises(ValidationError, match="let everyone in"):
        Settings(keys=(SecretStr("a"), SecretStr(" ")))


def test_an_empty_admin_key_is_none() -> None:
    assert Settings(admin_key=SecretStr("")).admin_key is None


def test_keys_are_not_shown() -> None:
    settings = Settings(keys=(SecretStr("sk-agents"),), admin_key=SecretStr("sk-admin"))
    for shown in (repr(settings), settings.model_dump_json()):
        assert "sk-agents" not in shown
        assert "sk-admin" not in shown


def test_two_backends_of_one_name_are_refused() -> None:
    a, b = BackendSettings(url="http://a", name="x"), BackendSettings(url="http://b", name="x")
    with pytest.raises(ValidationError, match="two backends are named 'x'"):
        Settings(backends=(a, b))


def test_several_workers_on_sqlite_are_refused_with_what_would_do() -> None:
    with pytest.raises(ValidationError, match=r"--workers 2: SQLite takes one gateway process; .* PostgreSQL"):
        Settings(workers=2)


@pytest.mark.parametrize("given", ["https://gw.example/", "https://gw.example/v1"])
def test_a_public_url_is_kept_bare(given: str) -> None:
    assert Settings(public_url=given).public_url == "https://gw.example"
