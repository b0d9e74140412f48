"""Contents of reports, and a parser of their pages."""

from __future__ import annotations

import json
from collections import Counter
from html.parser import HTMLParser

import numpy as np

from bln_search.core.configuration import all_configurations
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.method import Method
from bln_search.core.records import Evaluation, EvaluationKey
from bln_search.core.states import EvaluationState
from bln_search.ranking.row_results import TrialEvaluation
from bln_search.reports.manifest import build_study_manifest
from bln_search.reports.page import StudyReportContext
from tests.reports.studies import START, study, trial

VOID_TAGS = {"meta", "img", "br", "link", "input"}
RNG = np.random.default_rng(0)


class ParsedPage(HTMLParser):
    """A parsed page. A tag that is not closed correctly, or an event handler, is an AssertionError."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.ids, self.addresses, self.text = [], Counter(), [], [], ""
        self.scripts, self.styles = [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        for name, value in attributes:
            assert not name.startswith("on")
            if name in ("src", "href", "action", "srcset", "data", "poster", "xlink:href"):
                self.addresses.append(value)
            if name == "id":
                self.ids.append(value)
            if name == "style":
                self.styles.append(value)
        if tag == "th":
            assert dict(attributes)["scope"] in ("col", "row")
        if tag not in VOID_TAGS:
            self.open.append(tag)
            if tag == "script":
                self.scripts.append((dict(attributes).get("type"), ""))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] == ["script"]:
            kind, content = self.scripts[-1]
            self.scripts[-1] = kind, content + data
        elif self.open[-1:] == ["style"]:
            self.styles.append(data)
        else:
            self.text += data

    def figures(self):
        return [json.loads(text) for kind, text in self.scripts if kind == "application/json"]


def random_evaluations(seeds=2, points=("",)):
    for seed in range(seeds):
        for index, point in enumerate(points):
            for configuration in all_configurations(Method.BLN):
                for split in (Split.VALIDATION, Split.TEST):
                    estimate = PopulationEstimate.FROZEN if configuration.uses_population else None
                    key = EvaluationKey(configuration, estimate, 25, split)
                    loss = float(RNG.random()) + index
                    yield TrialEvaluation("bln", seed, Evaluation(key, EvaluationState.MEASURED, 10, loss, 0.5), point)


def make_report_context(trials=None, record=None, notes="", **fields):
    record = record or study()
    trials = [trial(n, n) for n in (0, 1)] if trials is None else trials
    document = build_study_manifest(record, trials, machine={"bln_search": "1"}, schema=None, now=START)
    results = fields.pop("evaluations", None)
    return StudyReportContext(
        record, list(random_evaluations()) if results is None else results, trials, document, notes=notes, **fields
    )
