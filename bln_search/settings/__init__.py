"""Every setting that the environment or the settings file may give."""

from bln_search.settings.database_url import find_missing_sqlite_file, find_sqlite_file
from bln_search.settings.loading import load_settings, read_settings
from bln_search.settings.model import SECRETS, Settings, settings_file

__all__ = [
    "SECRETS",
    "Settings",
    "find_missing_sqlite_file",
    "find_sqlite_file",
    "load_settings",
    "read_settings",
    "settings_file",
]
