"""The front matter of a model card, as the Hugging Face Hub specifies it.

Specification: https://github.com/huggingface/hub-docs/blob/main/modelcard.md
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import yaml

from bln_search.ranking.statistics.intervals import CONFIDENCE_LEVEL

_DIGITS = 6
LIBRARY = "bln-search"


@dataclass(frozen=True)
class CardMetric:
    """A value of the `model-index`.

    Attributes:
        type: Name of the metric on the Hub, such as `accuracy`.
        value: The value; an accuracy is a fraction. One that is not finite is left out.
        name: What it is, in words.
        interval: Ends of its 95 % confidence interval; None if it is unknown.
        over: What varies in the interval, such as `360 examples`.
    """

    type: str
    value: float
    name: str
    interval: tuple[float, float] | None = None
    over: str = ""

    def to_entry(self) -> dict[str, object]:
        """The entry of `metrics`: the specification has no field for an interval, so it is one of the `args`."""
        entry: dict[str, object] = {"type": self.type, "value": round(self.value, _DIGITS), "name": self.name}
        if self.interval is not None and all(map(math.isfinite, self.interval)):
            ends = [round(end, _DIGITS) for end in self.interval]
            entry["args"] = {"confidence_interval": ends, "confidence_level": CONFIDENCE_LEVEL, "over": self.over}
        return entry


@dataclass(frozen=True)
class CardResult:
    """Metrics on one split of a data set.

    Attributes:
        task: Task type, as the Hub names it.
        data_type: Name of the data set on the Hub, or its own name.
        data_name: Name of the data set for people.
        metrics: The values.
        split: The split; None if it is not known.
    """

    task: str
    data_type: str
    data_name: str
    metrics: Sequence[CardMetric]
    split: str | None = None


def render_front_matter(metadata: Mapping[str, object], name: str, results: Iterable[CardResult]) -> str:
    """The front matter with its two lines of dashes.

    Args:
        metadata: Other keys of the specification, such as `license`.
        name: Name of the model.
        results: What the `model-index` has; results without a finite value are left out.

    Raises:
        ValueError: `metadata` has a value that YAML does not have.
    """
    entries = [entry for result in results if (entry := _result_entry(result))["metrics"]]
    index = {"model-index": [{"name": name, "results": entries}]} if entries else {}
    try:
        text = yaml.safe_dump({**metadata, **index}, sort_keys=False, allow_unicode=True)
    except yaml.YAMLError as error:
        raise ValueError(f"the front matter of a model card cannot have this value: {error}") from None
    return f"---\n{text.strip()}\n---\n"


def _result_entry(result: CardResult) -> dict[str, object]:
    split = {} if result.split is None else {"split": result.split}
    return {
        "task": {"type": result.task},
        "dataset": {"name": result.data_name, "type": result.data_type, **split},
        "metrics": [metric.to_entry() for metric in result.metrics if math.isfinite(metric.value)],
    }
