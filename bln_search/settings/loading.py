"""Load the settings, with an error that names every invalid one."""

from __future__ import annotations

import os
import re
import tomllib
from difflib import get_close_matches
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import SettingsError

from bln_search.core.credentials import redact_secrets
from bln_search.core.errors import SpecError
from bln_search.core.files.private import make_folder_and_content_private
from bln_search.settings.environment_names import check_environment_names
from bln_search.settings.model import SECRETS, Settings, settings_file

_OWN_NAMES = re.compile(r"ledger\.sqlite3.*|token(-\d+)?")
"""Names in the home folder that only bln-search gives."""

_USUAL_NAMES = re.compile(r"checkpoints|data|logs|cache|settings\.toml|.*\.log\b.*|\..*")
"""Names in a home folder that bln-search has alone; temporary files begin with a dot."""


def load_settings() -> Settings:
    """`read_settings`; nobody but its owner can read a home folder of its own from then on."""
    settings = read_settings()
    if settings.home.absolute() != Path.home():  # it has other files of the user
        make_folder_and_content_private(settings.home, _OWN_NAMES, _USUAL_NAMES)
    return settings


def read_settings() -> Settings:
    """The settings from environment and file. Raises SpecError with every invalid setting."""
    if os.environ.get("BLN_SEARCH_SETTINGS") and not settings_file().is_file():
        raise SpecError("environment", [f"BLN_SEARCH_SETTINGS: there is no file {settings_file()}"])
    check_environment_names(os.environ)
    try:
        return Settings()
    except (tomllib.TOMLDecodeError, OSError, UnicodeDecodeError) as error:
        raise SpecError(str(settings_file()), [f"this cannot be read as TOML: {error}"]) from None
    except SettingsError as error:
        raise SpecError("environment", [f"{error}: write a list as JSON"]) from None
    except ValidationError as error:
        raise _invalid_settings(error) from None


def _invalid_settings(error: ValidationError) -> SpecError:
    """Every invalid setting with its source, without the values of settings that are or may be secret."""
    environment_names = {name.upper() for name in os.environ}
    problems: dict[bool, list[str]] = {True: [], False: []}
    for details in error.errors():
        key = str(details["loc"][0])
        variable = f"BLN_SEARCH_{key.upper()}"
        in_environment = variable in environment_names
        problems[in_environment].append(f"{variable if in_environment else key}: {_problem_text(key, details)}")
    sources = (("environment", True), (str(settings_file()), False))
    invalid_sources = [source for source, in_environment in sources if problems[in_environment]]
    return SpecError(" and ".join(invalid_sources), problems[True] + problems[False])


def _problem_text(key: str, details: ErrorDetails) -> str:
    if details["type"] == "extra_forbidden":
        similar = get_close_matches(key, Settings.model_fields, n=1)
        return "there is no such setting" + (f"; did you mean {similar[0]}?" if similar else "")
    message = details["msg"].removeprefix("Value error, ")
    return message if key in SECRETS else f"{message}, not {redact_secrets(repr(details['input']))}"
