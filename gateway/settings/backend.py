"""One inference server as the administrator names it: `http://host:8000,engine=sglang,name=a`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from gateway.settings.errors import SettingsError, sentence, unknown
from gateway.settings.heeded import ENGINE, FEATURES, VARIANT, VERSION

# A list stands in one option of `--backend` with this between its items.
_ITEM: Final = "|"


def _names(aliases: Mapping[str, str]) -> Mapping[str, str]:
    for asked, served in aliases.items():
        if not asked.strip() or not served.strip():
            raise ValueError("an alias is a name that is asked for and the model's name there: neither is empty")
    return aliases


Weight = Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)]
Aliases = Annotated[Mapping[str, str], AfterValidator(_names)]


class BackendSettings(BaseModel):
    """Where a backend is and what its administrator knows of it. The gateway finds out what is null."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    url: str
    """Scheme, host and any path prefix; without a slash or `/v1` at its end."""
    name: str = Field(default="", max_length=128)
    """Ours for it in traces and answers. Unless given, the URL without its scheme."""
    engine: Annotated[str | None, ENGINE] = None
    version: Annotated[str | None, VERSION] = None
    variant: Annotated[str | None, VARIANT] = None
    features: Annotated[tuple[str, ...], FEATURES] = ()
    models: tuple[str, ...] = ()
    """Names or patterns (`qwen*`) of the models that it serves."""
    tokenizer: str | None = None
    """The folder of the model's tokenizer on the gateway's machine, for a backend that gives text alone."""
    api_key_env: str | None = None
    """The environment variable that holds the key which the gateway sends to this backend."""
    weight: Weight = 1.0
    """Of the sessions it gets its share by this."""
    aliases: Aliases = {}
    """Names that agents may ask for beside its models' own, and the model that each is there."""
    control_urls: tuple[str, ...] = ()
    """Where its engines are paused and go on, if that is not at `url`: of a router, the servers behind it."""
    api_key: SecretStr | None = Field(default=None, exclude=True)
    """Never written down: read from `api_key_env` when the settings are."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """The value of one `--backend`: a URL, then options, with commas between. Raises SettingsError."""
        url, *options = text.strip().split(",")
        values: dict[str, object] = {"url": url}
        for option in options:
            key, equals, value = option.partition("=")
            key = key.strip()
            if key not in OPTIONS:
                raise SettingsError(unknown(f"option {key!r} of backend {redacted(url)}", key, OPTIONS))
            if not equals or not value.strip():
                raise SettingsError(f"option {key!r} of backend {redacted(url)} has no value: write {key}=…")
            if key in values:
                raise SettingsError(f"option {key!r} of backend {redacted(url)} is given twice")
            values[key] = value.strip()
        return cls.of(values)

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        """Raises SettingsError."""
        try:
            return cls.model_validate(values)
        except ValidationError as exc:
            raise SettingsError("; ".join(sentence(error) for error in exc.errors())) from exc

    @field_validator("url", mode="after")
    @classmethod
    def _bare_url(cls, value: str) -> str:
        parts = parsed_url(value)
        # People paste the base_url of an SDK; the adapter's own paths begin with /v1.
        path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
        return f"{parts.scheme.lower()}://{parts.netloc.lower()}{path}"

    @field_validator("control_urls", mode="after")
    @classmethod
    def _bare_control_urls(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(cls._bare_url, value))

    @field_validator("features", "models", "control_urls", mode="before")
    @classmethod
    def _split_list(cls, value: object) -> object:
        return tuple(item.strip() for item in value.split(_ITEM) if item.strip()) if isinstance(value, str) else value

    @field_validator("aliases", mode="before")
    @classmethod
    def _split_aliases(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        pairs = [item.partition("=") for item in value.split(_ITEM) if item.strip()]
        if not all(equals for _, equals, _ in pairs):
            raise ValueError("an alias has no model: write aliases=asked=served|another=served")
        return {asked.strip(): served.strip() for asked, _, served in pairs}

    @model_validator(mode="before")
    @classmethod
    def _name_by_url(cls, values: object) -> object:
        if isinstance(values, Mapping) and not values.get("name") and isinstance(values.get("url"), str):
            return {**values, "name": cls._bare_url(values["url"]).partition("://")[2]}
        return values

    def with_key_from(self, environ: Mapping[str, str]) -> Self:
        """The same with its key. Raises SettingsError where the variable that should hold it is not set."""
        if self.api_key_env is None:
            return self
        key = environ.get(self.api_key_env)
        if not key:
            raise SettingsError(f"backend {self.name}: the environment variable {self.api_key_env} is not set")
        return self.model_copy(update={"api_key": SecretStr(key)})


OPTIONS: Final = frozenset(BackendSettings.model_fields) - {"url", "api_key"}


def parsed_url(value: str) -> SplitResult:
    """A URL that a backend can have, in parts. Raises ValueError with what is wrong with it."""
    shown = redacted(value)
    try:
        parts = urlsplit(value)
        host, port = parts.hostname, parts.port
    except ValueError as exc:
        raise ValueError(f"backend {shown} is not a URL: {exc}") from exc
    if parts.scheme.lower() not in ("http", "https") or not host or port == 0:
        raise ValueError(f"backend {shown} is no http:// or https:// URL: write for instance http://localhost:8000")
    if "@" in parts.netloc:
        raise ValueError(
            f"backend {shown} has credentials in its URL: put the key in a variable, name it by api_key_env="
        )
    if parts.query or parts.fragment:
        raise ValueError(f"backend {shown} has a query or fragment: give scheme, host, port and path prefix alone")
    if any(character.isspace() or ord(character) < 0x20 for character in value):
        raise ValueError(f"backend {shown} has white space in its URL")
    return parts


def redacted(url: str) -> str:
    """The URL as it may be printed: without what may be a password."""
    before, at, after = url.rpartition("@")
    return f"{before.partition('://')[0]}://…@{after}" if at else url
