"""Every configuration of every method is explained."""

from __future__ import annotations

import pytest

from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.enums import MbnStatisticSource
from bln_search.core.method import Method
from service.serializers import serialize_configuration


@pytest.mark.parametrize("method", Method)
def test_meaning_names_every_statistic_of_every_configuration(method):
    for configuration in (*all_configurations(method, tuple(MbnStatisticSource)), InferenceConfiguration("BBBB")):
        document = serialize_configuration(configuration.restricted_to_statistics_of(method), method)
        meanings = document.meaning.split("; ") if document.meaning else []
        assert [meaning.partition(" from ")[0] for meaning in meanings] == [
            statistic.label for statistic in method.statistics
        ]
        assert all(" from " in meaning for meaning in meanings)


def test_sources_have_different_meanings():
    codes = ["TT--", "FF--", "MM--", "LL--", "CC--", "AA--", "BB--"]
    meanings = {serialize_configuration(InferenceConfiguration(code), Method.BN).meaning for code in codes}
    assert len(meanings) == len(codes)
