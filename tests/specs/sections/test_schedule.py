"""Values of schedules during training, in every notation."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from bln_search.specs.sections.schedule import Schedule

READ = TypeAdapter(Schedule).validate_python
finite = st.floats(-10, 10)


@pytest.mark.parametrize(
    ("document", "values"),
    [
        (0.5, {0: 0.5, 0.99: 0.5}),
        ({0: 0.1, 0.4: 0.5, 0.6: 0.9}, {0: 0.1, 0.399: 0.1, 0.4: 0.5, 0.6: 0.9, 1: 0.9}),
        ({"kind": "linear", "initial": 1, "final": 3}, {0: 1, 0.25: 1.5, 1: 3}),
        ({"kind": "linear", "initial": 0, "final": 5, "begin": 0.2, "end": 0.7}, {0.1: 0, 0.45: 2.5, 0.9: 5}),
        ({"kind": "cosine", "initial": 0, "final": 1}, {0: 0, 0.5: 0.5, 0.25: (1 - math.cos(math.pi / 4)) / 2, 1: 1}),
    ],
)
def test_schedule_values_over_training(document, values):
    schedule = READ(document)
    assert {progress: schedule.value_at_progress(progress) for progress in values} == pytest.approx(values)


@given(st.dictionaries(st.floats(0, 0.99), finite, min_size=1, max_size=5))
def test_schedules_survive_serialization(steps):
    schedule = READ({0.0: 0.0, **steps})
    adapter = TypeAdapter(Schedule)
    assert adapter.validate_json(adapter.dump_json(schedule)) == schedule
