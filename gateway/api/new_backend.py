"""A backend that is added over HTTP: what may be said of it, and what the database keeps."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Final

from pydantic import AfterValidator, Field, SecretStr, ValidationError

from adapters.schema import Error
from gateway.api.backend_url import check_backend_url
from gateway.api.inputs import Label, Strict
from gateway.api.weights import WeightVersion
from gateway.backend import Backend
from gateway.refusals import InvalidRequest
from gateway.settings import PREFIX, BackendSettings
from gateway.settings.backend import Weight
from gateway.settings.errors import sentence
from gateway.settings.heeded import ENGINE, FEATURES, VARIANT, VERSION

# Whoever names a variable here sends its value to a server of their choice.
_OWN_SECRETS: Final = (f"{PREFIX}KEYS", f"{PREFIX}ADMIN_KEY", f"{PREFIX}DATABASE")


def bare_url(url: str) -> str:
    """As the settings spell it. Raises ValueError with their sentence."""
    try:
        return BackendSettings(url=url).url
    except ValidationError as exc:
        raise ValueError(sentence(exc.errors()[0])) from exc


Url = Annotated[Label, AfterValidator(bare_url)]
Names = Annotated[tuple[Label, ...], Field(max_length=256)]
ModelAliases = Annotated[dict[Label, Label], Field(max_length=256)]


class NewBackend(Strict):
    """A backend as an administrator names it; what is null is found out by asking it."""

    url: Url
    name: Label | None = None
    engine: Annotated[Label | None, ENGINE] = None
    version: Annotated[Label | None, VERSION] = None
    variant: Annotated[Label | None, VARIANT] = None
    features: Annotated[Names, FEATURES] = ()
    models: Names = ()
    """Names or patterns (`qwen*`) of the models that it serves."""
    tokenizer: Label | None = None
    """The folder of the model's tokenizer on the gateway's machine, for a backend that gives text alone."""
    api_key_env: Label | None = None
    """The gateway's environment variable that has the backend's key. The key itself is never sent here."""
    control_urls: Annotated[tuple[Annotated[Label, AfterValidator(bare_url)], ...], Field(max_length=256)] = ()
    """Where its engines are paused and go on, if that is not at `url`: of a router, the servers behind it."""
    weight: Weight = 1.0
    """Its share of sessions, held against the others'."""
    aliases: ModelAliases = Field(default_factory=dict)
    """Names that agents may ask for beside its models' own, and the model that each is there."""
    weight_version: WeightVersion | None = None
    """Which weights it has, known before its first call; null: what was told of its name before, or nothing."""


async def backend_of(named: NewBackend, *, environ: Mapping[str, str], own: Collection[tuple[str, int]]) -> Backend:
    """The backend, not yet asked. Raises InvalidRequest."""
    for url in (named.url, *named.control_urls):
        await check_backend_url(url, own=own)
    key = key_of(named.api_key_env, environ)
    told = named.model_dump(exclude_none=True, exclude={"weight_version"})
    return Backend(BackendSettings(**told, api_key=key), source="api")


def key_of(name: str | None, environ: Mapping[str, str]) -> SecretStr | None:
    """Raises InvalidRequest."""
    if name is None:
        return None
    if name.upper() in _OWN_SECRETS:
        raise _refused(f"{name} holds a secret of the gateway's own, which no backend gets.")
    if not environ.get(name):
        raise _refused(f"The gateway's environment has no variable {name}.")
    return SecretStr(environ[name])


def _refused(message: str) -> InvalidRequest:
    return InvalidRequest(Error(message, code="invalid_request", param="api_key_env"))
