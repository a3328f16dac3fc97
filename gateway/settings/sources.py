"""Where settings come from: defaults, under a YAML file, under `ROLLOUT_GATEWAY_*` variables, under flags."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from pydantic import ValidationError

from gateway.settings.backend import OPTIONS
from gateway.settings.errors import SettingsError, sentence, unknown
from gateway.settings.model import Settings

PREFIX: Final = "ROLLOUT_GATEWAY_"

# Read by the command line itself or by its client commands, so no mistake when `serve` sees them.
_COMMAND_LINE: Final = frozenset({"config", "url", "api_key"})

# Kubernetes sets these in each pod for a Service named rollout-gateway, and ROLLOUT_GATEWAY_PORT=tcp://… too.
_KUBERNETES: Final = re.compile(r"service_host|service_port(_\w+)?|port_\d+_(tcp|udp|sctp)(_\w+)?")


@dataclass(frozen=True, slots=True)
class Source:
    """The settings of one place, and how that place writes a setting's name."""

    values: Mapping[str, object]
    spell: Callable[[str], str]


def load(
    *, config: Path | None = None, environ: Mapping[str, str], flags: Mapping[str, object] | None = None
) -> Settings:
    """The settings of all sources together, a later source's value in place of an earlier one's.

    A flag of None was not given. Raises SettingsError: for an unknown key too, whichever source has it.
    """
    sources = (
        Source(_read_file(config) if config else {}, lambda key: f"{key} in {config}"),
        Source(_read_environment(environ), lambda key: PREFIX + key.upper()),
        Source({key: value for key, value in (flags or {}).items() if value is not None}, _flag),
    )
    merged: dict[str, object] = {}
    for source in sources:
        for key in source.values:
            if key not in Settings.model_fields:
                raise SettingsError(unknown(source.spell(key), key, Settings.model_fields, source.spell))
        merged |= source.values
    try:
        settings = Settings.model_validate(merged)
    except ValidationError as exc:
        raise SettingsError("\n".join(_sentences(exc, sources))) from exc
    backends = tuple(backend.with_key_from(environ) for backend in settings.backends)
    return settings.model_copy(update={"backends": backends})


def _flag(key: str) -> str:
    return "--backend" if key == "backends" else "--" + key.replace("_", "-")


def _read_file(path: Path) -> Mapping[str, object]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise SettingsError(f"{path} can't be read: {exc.strerror}") from exc
    except (yaml.YAMLError, UnicodeDecodeError) as exc:
        raise SettingsError(f"{path} is not YAML: {' '.join(str(exc).split())}") from exc
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise SettingsError(f"{path} has to be a mapping of settings, such as `port: 9090`")
    for secret in _secrets_in(values):
        raise SettingsError(f"{secret} in {path}: a key does not belong in a file; put it in the environment")
    return values


def _secrets_in(values: Mapping[str, object]) -> Iterator[str]:
    yield from sorted({"keys", "admin_key"} & values.keys())
    backends = values.get("backends")
    for backend in backends if isinstance(backends, list) else ():
        if isinstance(backend, dict) and "api_key" in backend:
            yield "api_key of a backend (api_key_env names its variable)"


def _read_environment(environ: Mapping[str, str]) -> Mapping[str, object]:
    ours = {name[len(PREFIX) :].lower(): value for name, value in environ.items() if name.startswith(PREFIX)}
    return {
        key: value
        for key, value in ours.items()
        if key not in _COMMAND_LINE
        and not _KUBERNETES.fullmatch(key)
        and not (key == "port" and value.startswith("tcp://"))
    }


def _sentences(invalid: ValidationError, sources: tuple[Source, ...]) -> Iterator[str]:
    """One line for each thing that is wrong, in the spelling of the source that said it."""
    for error in invalid.errors(include_url=False, include_input=False):
        if not error["loc"]:
            yield sentence(error)
            continue
        field, *inner = (str(part) for part in error["loc"])
        teller = next(source for source in reversed(sources) if field in source.values)
        place = ".".join([teller.spell(field), *inner])
        if error["type"] == "extra_forbidden":
            yield unknown(place, inner[-1], OPTIONS)
        else:
            yield f"{place}: {sentence(error)}"
