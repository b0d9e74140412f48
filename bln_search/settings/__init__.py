"""Every setting that the environment or the settings file may give."""

from bln_search.settings.loading import load_settings
from bln_search.settings.model import SECRETS, Settings, settings_file

__all__ = ["SECRETS", "Settings", "load_settings", "settings_file"]
