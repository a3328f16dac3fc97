"""What one gateway is told: `load` reads it once, at the command line; others get the frozen `Settings`."""

from gateway.settings.backend import BackendSettings, redacted
from gateway.settings.errors import SettingsError
from gateway.settings.model import LogLevel, Settings, is_loopback
from gateway.settings.sources import PREFIX, load

__all__ = ["PREFIX", "BackendSettings", "LogLevel", "Settings", "SettingsError", "is_loopback", "load", "redacted"]
