"""Names of environment variables that begin with BLN_SEARCH_."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches

from bln_search.core.errors import SpecError
from bln_search.settings.model import Settings

PREFIX = "BLN_SEARCH_"

_NAMES_OF_TESTS = ("EXAMPLES", "EXAMPLE_SEEDS", "REPETITIONS", "REPORTS")
"""How much the tests of the repository try."""

KNOWN_NAMES = tuple(
    sorted(f"{PREFIX}{name}" for name in (*map(str.upper, Settings.model_fields), "SETTINGS", *_NAMES_OF_TESTS))
)
"""Every variable that is read."""

_SERVICE_LINK = re.compile(
    r"(.*_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_SERVICE_LINK_URL = re.compile(r"(tcp|udp|sctp)://")
"""Kubernetes describes each service of a namespace in variables: a service `bln-search` in BLN_SEARCH_SERVICE_HOST."""


def check_environment_names(environment: Mapping[str, str]) -> None:
    """Raise SpecError for variables with the prefix that are not settings, so that a misspelled one is not ignored."""
    unknown = [
        name
        for name, value in environment.items()
        if name.upper().startswith(PREFIX) and name.upper() not in KNOWN_NAMES and not _is_service_link(name, value)
    ]
    if unknown:
        raise SpecError("environment", [f"{name}: {_suggest_name(name)}" for name in sorted(unknown)])


def _is_service_link(name: str, value: str) -> bool:
    rest = name.removeprefix(PREFIX)
    is_url = rest.endswith("PORT") and _SERVICE_LINK_URL.match(value) is not None
    return is_url or _SERVICE_LINK.fullmatch(rest) is not None


def _suggest_name(name: str) -> str:
    similar = get_close_matches(name.upper(), KNOWN_NAMES, n=1, cutoff=0.7)
    suggestion = f"did you mean {similar[0]}?" if similar else "`bln-search settings` prints every setting"
    return f"there is no such setting; {suggestion}"
