"""The front matter of the model cards of exports: what is known of a network, and what its author adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bln_search.api.export.check import OutputParity, ProgramFigures
from bln_search.api.export.description import LossAndAccuracy, StudyNetworkDescription
from bln_search.core.enums import Split
from bln_search.core.method import Method
from bln_search.ranking.statistics.intervals import (
    ConfidenceInterval,
    t_interval_from_deviation,
    wilson_interval,
)
from bln_search.reports.card_front_matter import LIBRARY, CardMetric, CardResult, render_front_matter

_TAGS = {
    Method.BN: "batch-normalization",
    Method.LN: "layer-normalization",
    Method.BLN: "batch-layer-normalization",
    Method.BRN: "batch-renormalization",
    Method.MBN: "memorized-batch-normalization",
}
_MODEL_INDEX = "model-index"


@dataclass(frozen=True)
class _PublishedData:
    """What the Hub says of a data set. repository: None if it is not there. test_split: Its name of our test split."""

    pipeline_tag: str
    repository: str | None = None
    test_split: str = Split.TEST.value


_PUBLISHED_DATA = {
    "cifar10": _PublishedData("image-classification", "uoft-cs/cifar10"),
    "cifar100": _PublishedData("image-classification", "uoft-cs/cifar100"),
    "diabetes": _PublishedData("tabular-regression"),
    "digits": _PublishedData("image-classification"),
    "imagenet": _PublishedData("image-classification", "ILSVRC/imagenet-1k", "validation"),
    "mnist": _PublishedData("image-classification", "ylecun/mnist"),
}
"""The built-in data sets of networks that can be exported. Of other data sets the Hub's task is not known."""


def render_study_front_matter(title: str, export: StudyNetworkDescription, parity: OutputParity) -> str:
    """The front matter of a network of a study, with the figures of the test split."""
    name = str(export.origin.data["name"])
    data = _PUBLISHED_DATA.get(name)
    metadata: dict[str, object] = {"library_name": LIBRARY, "tags": _list_tags([export.normalization.method])}
    if data is not None:
        metadata["pipeline_tag"] = data.pipeline_tag
    if data is not None and data.repository is not None:
        metadata["datasets"] = [data.repository]
    over_seeds = export.figures.over_seeds.get(Split.TEST.value)
    metrics = [
        *([] if parity.test is None else _metrics_of_program(parity.test, export.loss)),
        *([] if over_seeds is None else _metrics_over_seeds(over_seeds, export.figures.seeds, export.loss)),
    ]
    result = CardResult(
        task=str(export.task) if data is None else data.pipeline_tag,
        data_type=name if data is None or data.repository is None else data.repository,
        data_name=name,
        metrics=metrics,
        split=Split.TEST.value if data is None else data.test_split,
    )
    return render_front_matter({**metadata, **_list_metric_types(metrics)}, title, [result])


@dataclass(frozen=True)
class OwnCardContent:
    """What the card of a user's own network says beside its description.

    Attributes:
        metadata: Keys of the front matter from the user. With `pipeline_tag` and `datasets` there is a `model-index`.
        metrics: Figures of the exported row on the validation examples.
        ranking: The ranked table as Markdown; None without one.
    """

    metadata: Mapping[str, object]
    metrics: Sequence[CardMetric] = ()
    ranking: str | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for metadata that the front matter cannot have."""
        if _MODEL_INDEX in self.metadata:
            raise ValueError(f"metadata cannot have {_MODEL_INDEX}: it is made of the table, as in ranked=ranked")
        for key in ("tags", "datasets"):
            self._list(key)
        render_front_matter(self.metadata, "", [])

    def _list(self, key: str) -> list[str]:
        value = self.metadata.get(key, ())
        if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
            return list(value)
        raise ValueError(f"{key} of metadata is a list of names, not {value!r}")

    @property
    def datasets(self) -> list[str]:
        """Names of the data sets."""
        return self._list("datasets")

    def render_front_matter(self, name: str, methods: Sequence[Method]) -> str:
        """The front matter of a network of the class `name` with layers of these methods."""
        task = self.metadata.get("pipeline_tag")
        results = []
        if isinstance(task, str) and self.datasets:
            data = self.datasets[0]
            results = [CardResult(task, data, data.rpartition("/")[2], self.metrics, Split.VALIDATION.value)]
        types = _list_metric_types(self.metrics) if results else {}
        tags = list(dict.fromkeys([*_list_tags(methods), *self._list("tags")]))
        lists = {"tags": tags, **({"datasets": self.datasets} if self.datasets else {})}
        return render_front_matter({"library_name": LIBRARY, **types, **self.metadata, **lists}, name, results)


def _list_tags(methods: Sequence[Method]) -> list[str]:
    return [LIBRARY, *(_TAGS[method] for method in dict.fromkeys(methods) if method in _TAGS)]


def _list_metric_types(metrics: Sequence[CardMetric]) -> dict[str, object]:
    """The key `metrics`; a loss has no identifier on the Hub."""
    types = list(dict.fromkeys(metric.type for metric in metrics if metric.type != "loss"))
    return {"metrics": types} if types else {}


def _metrics_of_program(test: ProgramFigures, loss: str) -> list[CardMetric]:
    """What the exported program achieves, with intervals over examples."""
    over = f"{test.examples} examples"
    loss_interval = t_interval_from_deviation(test.loss, test.loss_deviation, test.examples)
    metrics = []
    if test.accuracy is not None:
        ends = wilson_interval(test.accuracy, test.examples)
        metrics.append(CardMetric("accuracy", test.accuracy, "accuracy of this network", ends, over))
    metrics.append(CardMetric("loss", test.loss, f"{loss} of this network", interval_ends(loss_interval), over))
    return metrics


def _metrics_over_seeds(figure: LossAndAccuracy, seeds: int, loss: str) -> list[CardMetric]:
    """What networks trained alike achieve, with intervals over seeds; nothing for a single one."""
    if seeds < 2:
        return []
    over, suffix = f"{seeds} seeds", f"mean over {seeds} seeds"
    metrics = []
    if figure.accuracy is not None:
        ends = interval_ends(t_interval_from_deviation(figure.accuracy, figure.accuracy_deviation, seeds))
        metrics.append(CardMetric("accuracy", figure.accuracy, f"accuracy, {suffix}", ends, over))
    ends = interval_ends(t_interval_from_deviation(figure.loss, figure.loss_deviation, seeds))
    return [*metrics, CardMetric("loss", figure.loss, f"{loss}, {suffix}", ends, over)]


def interval_ends(interval: ConfidenceInterval) -> tuple[float, float] | None:
    """Its ends; None for a single repetition."""
    if interval.low is None or interval.high is None:
        return None
    return interval.low, interval.high
