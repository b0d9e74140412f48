"""The files for Prometheus and Grafana, taken apart: which metrics, labels and functions they name."""

from __future__ import annotations

import json
import re

import yaml

from tests.docs.pages import DOCS

FOLDER = DOCS / "monitoring"
WORDS = {
    *("and", "on", "by", "sum", "min", "max", "rate", "delta", "changes", "topk", "clamp_min", "histogram_quantile"),
    *("offset", "min_over_time"),
}
"""Words of PromQL that are used there; promtool knows them all."""

OWN_LABELS = {"job", "instance"}
"""Labels that Prometheus itself adds."""


def dashboard():
    """The dashboard."""
    return json.loads((FOLDER / "grafana.json").read_text(encoding="utf-8"))


def rules():
    """The alert rules."""
    return [rule for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"] for rule in group["rules"]]


def expressions():
    """Every expression, by what it belongs to."""
    found = [(rule["alert"], rule["expr"]) for rule in rules()]
    for panel in dashboard()["panels"]:
        found += [(panel["title"], target["expr"]) for target in panel.get("targets", ())]
    return found


def selectors(expression):
    """Names of metrics with what is asked of their labels."""
    for name, inside in re.findall(r"\b((?:bln_search|process)_\w+|up)\b(?:\{([^}]*)\})?", expression):
        yield name, re.findall(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"', inside)


def words(expression):
    """What is left of it without selectors, durations, numbers and strings: functions, labels, and names of metrics."""
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\"[^\"]*\"", " ", expression)
    return set(re.findall(r"[A-Za-z_]\w*", re.sub(r"\b\d[\w.]*", " ", bare)))
