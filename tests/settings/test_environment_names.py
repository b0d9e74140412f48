"""Names of environment variables: a misspelled one is refused, those of other programs are not."""

from __future__ import annotations

import pytest

from bln_search.core.errors import SpecError
from bln_search.settings.environment_names import KNOWN_NAMES, check_environment_names


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("BLN_SEARCH_DATABSE", "BLN_SEARCH_DATABASE"),
        ("BLN_SEARCH_TOKENS", "BLN_SEARCH_TOKEN"),
        ("bln_search_hme", "BLN_SEARCH_HOME"),
        ("BLN_SEARCH_LOGFILE", "BLN_SEARCH_LOG_FILE"),
        ("BLN_SEARCH_SETTING", "BLN_SEARCH_SETTINGS"),
    ],
)
def test_a_misspelled_name_is_refused_with_a_suggestion(name, suggestion):
    with pytest.raises(SpecError, match=f"{name}: .*{suggestion}") as error:
        check_environment_names({name: "hush"})
    assert "hush" not in str(error.value)


def test_every_unknown_name_is_in_the_error():
    with pytest.raises(SpecError) as error:
        check_environment_names({"BLN_SEARCH_A": "1", "BLN_SEARCH_PORT": "8000", "HOME": "/x"})
    assert [problem.partition(":")[0] for problem in error.value.problems] == ["BLN_SEARCH_A", "BLN_SEARCH_PORT"]


def test_known_names_and_service_links_of_kubernetes_are_accepted():
    check_environment_names(dict.fromkeys(KNOWN_NAMES, "1"))
    check_environment_names(
        {
            "BLN_SEARCH_SERVICE_HOST": "10.0.0.1",
            "BLN_SEARCH_SERVICE_PORT_HTTP": "8000",
            "BLN_SEARCH_PORT": "tcp://10.0.0.1:8000",
            "BLN_SEARCH_PORT_8000_TCP_ADDR": "10.0.0.1",
            "BLN_SEARCH_WEB_SERVICE_PORT": "8000",
            "BLN_SEARCH_WEB_PORT_8000_TCP": "tcp://10.0.0.1:8000",
        }
    )
