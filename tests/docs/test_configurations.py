"""The page about configurations tells of them what the program knows."""

from __future__ import annotations

import re

from bln_search.core.configuration import all_configurations
from bln_search.core.method import Method, StatisticSource
from tests.docs.pages import PAGES, written

PAGE = written(PAGES["configurations.md"])


def test_the_table_of_all_sixteen():
    rows = re.findall(r"^\| `([TF]{4})` \| (.*?) \| (\d) \| (yes|no) \|$", PAGE, re.MULTILINE)
    expected = []
    for configuration in all_configurations(Method.BLN):
        computed = [
            str(statistic)
            for statistic, source in configuration.source_by_statistic.items()
            if source is StatisticSource.MINI_BATCH
        ]
        deterministic = "yes" if configuration.is_deterministic else "no"
        expected.append(
            (
                str(configuration),
                " ".join(computed) or "nothing",
                str(configuration.num_statistics_from_mini_batch),
                deterministic,
            )
        )
    assert rows == expected


def test_the_words_of_each_method():
    rows = re.findall(r"^\| ([A-Z0-9, ]+) \| [^|]+ \| (\d+): ([^|]+) \|", PAGE, re.MULTILINE)
    told = {
        name: (int(count), set(re.findall(r"`([^`]+)`", words)))
        for names, count, words in rows
        for name in names.split(", ")
    }
    assert set(told) == {method.value.upper() for method in Method}
    for method in Method:
        words = [str(configuration) for configuration in all_configurations(method)]
        count, named = told[method.value.upper()]
        assert count == len(words)
        assert named == set(words) if len(named) > 2 else named == {words[0], words[-1]}
