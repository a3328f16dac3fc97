"""A backend that is changed over HTTP: which fields, and what becomes of the rest."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final, Self

from pydantic import Field, model_validator

from adapters.schema import Error
from gateway.api.backend_url import check_backend_url
from gateway.api.inputs import Label, Strict
from gateway.api.new_backend import ModelAliases, Names, Url, key_of
from gateway.backend import Backend
from gateway.refusals import InvalidRequest, Refusal
from gateway.settings import BackendSettings, SettingsError
from gateway.settings.backend import Weight
from gateway.settings.heeded import VERSION

# Of a configured one the rest stands in the configuration, which would be right again after the next start.
_OF_ANY: Final = frozenset({"weight"})


class Configured(Refusal):
    """It is the configuration's to say."""

    status = 409
    code = "backend_configured"


class ChangedBackend(Strict):
    """What is to be another; what is left out stays. Null: found out by asking, none, or as it is configured."""

    url: Url | None = None
    """Another address: the key that the old one was given is taken away, unless `api_key_env` is said with it."""
    engine: Label | None = None
    version: Annotated[Label | None, VERSION] = None
    variant: Label | None = None
    features: Names = ()
    models: Names = ()
    """Names or patterns (`qwen*`) of the models that it serves."""
    tokenizer: Label | None = None
    api_key_env: Label | None = None
    control_urls: Annotated[tuple[Url, ...], Field(max_length=256)] = ()
    weight: Weight | None = None
    aliases: ModelAliases = Field(default_factory=dict)

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError(f"say what is to be another: {', '.join(sorted(type(self).model_fields))}")
        if "url" in self.model_fields_set and self.url is None:
            raise ValueError("a backend has a URL: null is none")
        return self

    def told(self) -> dict[str, Any]:
        """The fields that are said, and what a new URL takes with it."""
        told = self.model_dump(include=self.model_fields_set)
        if "url" in told:
            told.setdefault("api_key_env", None)
        return told


async def settings_after(
    backend: Backend, told: Mapping[str, Any], *, environ: Mapping[str, str], own: Collection[tuple[str, int]]
) -> BackendSettings:
    """Of one that was added over HTTP. Raises Configured, InvalidRequest."""
    for url in (*([told["url"]] if "url" in told else []), *told.get("control_urls", ())):
        await check_backend_url(url, own=own)
    before = backend.settings.model_dump(exclude={"api_key"})
    after = {name: value for name, value in {**before, **told}.items() if value is not None}
    try:
        settings = BackendSettings.of(after)
    except SettingsError as exc:
        raise InvalidRequest(Error(str(exc), code="invalid_request")) from exc
    return settings.model_copy(update={"api_key": key_of(settings.api_key_env, environ)})


def check_source(backend: Backend, told: Mapping[str, Any]) -> None:
    """Raises Configured."""
    others = sorted(told.keys() - _OF_ANY)
    if backend.source == "config" and others:
        raise Configured(
            f"`{backend.name}` stands in the configuration, and so do its {', '.join(others)}: change them there. "
            "Here its weight is set, and whether it drains."
        )
