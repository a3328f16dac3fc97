"""`--backend`: a URL and what its administrator knows of it."""

import pytest
from pydantic import SecretStr

from gateway.settings import BackendSettings, SettingsError


def test_a_bare_url_is_enough_and_names_the_backend() -> None:
    backend = BackendSettings.parse("http://gpu-7:8000")
    assert (backend.url, backend.name, backend.engine) == ("http://gpu-7:8000", "gpu-7:8000", None)


def test_options_follow_the_url_after_commas() -> None:
    backend = BackendSettings.parse(
        "https://gpu:8000/a, engine=sglang,name=a,version=0.5.23,models=qwen*|llama-3,api_key_env=KEY"
    )
    assert backend == BackendSettings(
        url="https://gpu:8000/a",
        engine="sglang",
        name="a",
        version="0.5.23",
        models=("qwen*", "llama-3"),
        api_key_env="KEY",
    )


def test_a_share_and_other_names_for_its_models_can_be_told() -> None:
    backend = BackendSettings.parse("http://gpu:8000,weight=2.5,aliases=gpt-4o=qwen3:4b|o3 = qwen3:4b")
    assert (backend.weight, backend.aliases) == (2.5, {"gpt-4o": "qwen3:4b", "o3": "qwen3:4b"})
    assert BackendSettings.parse("http://gpu:8000").weight == 1.0


@pytest.mark.parametrize(
    ("pasted", "url"),
    [
        ("http://host:8000/", "http://host:8000"),
        ("http://host:8000/v1", "http://host:8000"),
        ("http://host:8000/v1/", "http://host:8000"),
        ("http://host/team-a/v1", "http://host/team-a"),
        ("http://host/team-a//", "http://host/team-a"),
        ("http://host/v1beta", "http://host/v1beta"),
        ("HTTP://Host:8000", "http://host:8000"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_a_pasted_base_url_loses_its_version_and_keeps_its_prefix(pasted: str, url: str) -> None:
    assert BackendSettings.parse(pasted).url == url


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "write for instance http://localhost:8000"),
        ("localhost:8000", "write for instance http://localhost:8000"),
        ("ftp://host", "write for instance http://localhost:8000"),
        ("unix:///run/vllm.sock", "write for instance http://localhost:8000"),
        ("http://", "write for instance http://localhost:8000"),
        ("http://host:99999", "is not a URL"),
        ("http://host:0", "is no http:// or https:// URL"),
        ("http://host/?a=1", "query or fragment"),
        ("http://host/#a", "query or fragment"),
        ("http://ho st/", "white space"),
        ("http://host,engin=vllm", "did you mean engine?"),
        ("http://host,zzz=1", "known are aliases, api_key_env, control_urls, engine, features"),
        ("http://host,api_key=sk-1", "did you mean api_key_env?"),
        ("http://host,weight=0", "greater than 0"),
        ("http://host,weight=inf", "finite number"),
        ("http://host,aliases=gpt-4o", "write aliases=asked=served|another=served"),
        ("http://host,aliases=gpt-4o=", "neither is empty"),
        ("http://host,engine", "write engine=…"),
        ("http://host,engine=", "write engine=…"),
        ("http://host,name=a,name=b", "given twice"),
        ("http://host,engine=vlm", "engine 'vlm' is unknown: did you mean vllm?"),
        ("http://host,engine=VLLM", "engine 'VLLM' is unknown"),
        ("http://host,engine=vllm,features=no_parserz", "of the engine vllm is unknown: did you mean no_parsers?"),
        ("http://host,features=no_parserz", "of any engine is unknown: did you mean no_parsers?"),
        ("http://host,features=sglext,engine=vllm", "feature 'sglext' of the engine vllm is unknown"),
        ("http://host,engine=sglang,variant=agentcor", "of the engine sglang is unknown: did you mean agentcore?"),
        ("http://host,engine=vllm,variant=x", "variant 'x' of the engine vllm is unknown; known are none"),
        ("http://host,version=banana", "the version 'banana' is no release's number"),
    ],
)
def test_what_is_wrong_is_said(text: str, says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        BackendSettings.parse(text)
    assert says in str(caught.value)


def test_credentials_in_a_url_are_refused_and_never_repeated() -> None:
    with pytest.raises(SettingsError, match="api_key_env=") as caught:
        BackendSettings.parse("http://user:hunter2@host:8000")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(SettingsError) as caught:
        BackendSettings.parse("http://user:hunter2@host:8000,oops=1")
    assert "hunter2" not in str(caught.value)


def test_the_key_comes_from_the_named_variable_and_is_not_shown() -> None:
    backend = BackendSettings.parse("http://host,api_key_env=KEY").with_key_from({"KEY": "sk-secret"})
    assert backend.api_key == SecretStr("sk-secret")
    assert "sk-secret" not in repr(backend)
    assert "sk-secret" not in backend.model_dump_json()


def test_a_named_variable_that_is_not_set_is_an_error() -> None:
    with pytest.raises(SettingsError, match="backend host: the environment variable KEY is not set"):
        BackendSettings.parse("http://host,api_key_env=KEY").with_key_from({})
