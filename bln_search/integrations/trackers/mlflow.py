"""Studies in MLflow: an experiment for each study, a run for each trial below one for the study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest

from mlflow.entities import Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from sqlalchemy.exc import SQLAlchemyError

from bln_search.core.errors import TrackerError
from bln_search.core.states import StudyState, TrialState
from bln_search.integrations.trackers.mlflow_names import make_name, make_parameter_text, make_tag_text, shorten
from bln_search.integrations.trackers.records import (
    RecommendedNetwork,
    TrackedEpoch,
    TrackedStudy,
    TrackedSummary,
    TrackedTrial,
)
from bln_search.integrations.trackers.target import TrackerTarget

STUDY_TAG = "bln_search.study"
TRIAL_TAG = "bln_search.trial"
"""Tags with the key of the study and of the trial, by which runs are found again."""

_PREFIX = "bln_search."
CONTENT = "content"
CONTENT_TAG = f"{_PREFIX}{CONTENT}"
"""Tag of a run or model that has everything: the digest of the trial, of the table or of the network."""

_DIGEST_TAG = "bln_search.digest"
_KEPT_TAGS = frozenset({STUDY_TAG, TRIAL_TAG, _DIGEST_TAG})
"""Tags with which a run is created."""

TABLE_FILE = "ranked.csv"
_STUDY_RUN = "study"
"""Value of `TRIAL_TAG` of the run of a study: no key of a trial."""

_LAST_METRIC = "validation_loss"
"""The metric that every epoch has."""

_PAGE = 1000
_MAX_PARAMS = 100
_MAX_METRICS = 800
"""Limits of MLflow for a page of runs and for a batch, which may have 1000 values together."""

_RUNNING = "RUNNING"
_STATUS_OF_TRIAL = {
    TrialState.FINISHED: "FINISHED",
    TrialState.DIVERGED: "FAILED",
    TrialState.FAILED: "FAILED",
    TrialState.PRUNED: "KILLED",
}
_STATUS_OF_STUDY = {StudyState.COMPLETE: "FINISHED", StudyState.FAILED: "FAILED", StudyState.CANCELLED: "KILLED"}
"""Statuses of MLflow; the run of every other state is RUNNING."""


@dataclass
class _KnownRun:
    """What a run of the server has.

    Attributes:
        run_id: Its id.
        content: Value of its `CONTENT_TAG`; empty while it is running.
        params: Names of its parameters.
        tags: Names of its tags that say how a trial or study ended.
        last_step: The last epoch; None where it is unknown.
    """

    run_id: str
    content: str = ""
    params: set[str] = field(default_factory=set)
    tags: set[str] = field(default_factory=set)
    last_step: int | None = None


class MlflowTracker:
    """Writes a study to MLflow.

    Runs are looked for by their tags, and created together with them in one request. A metric has the time of its
    record, so that MLflow takes a repeated one for the same. A run gets its status last: until then it is completed by
    each later synchronization. Of runs with equal tags, which two exports at the same time can create, one is kept.

    Args:
        target: The tracking URI.
    """

    def __init__(self, target: TrackerTarget) -> None:
        self.target = target
        self._runs: dict[str, _KnownRun] = {}
        with self._errors():
            self._client = MlflowClient(tracking_uri=target.location)

    def open_study(self, study: TrackedStudy) -> None:
        """Find or create the experiment and the run of the study, and list the runs that exist."""
        self._study = study
        with self._errors():
            self._experiment_id = self._find_experiment() or self._create_experiment()
            self._runs = self._list_runs_without_doubles()
            if _STUDY_RUN not in self._runs:
                self._create_run(_STUDY_RUN, study.title or study.name, study.started_at, {})

    def _find_experiment(self) -> str | None:
        found = self._client.search_experiments(filter_string=f"tags.`{STUDY_TAG}` = '{self._study.key}'")
        return min((experiment.experiment_id for experiment in found), default=None)

    def _create_experiment(self) -> str:
        try:
            created: str = self._client.create_experiment(self._study.label, tags={STUDY_TAG: self._study.key})
        except MlflowException as error:
            found = self._find_experiment()  # another export created it meanwhile
            if found is not None:
                return found
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            raise TrackerError(
                f"{self.target}: the experiment {self._study.label} was deleted; restore it there, or delete it "
                "permanently"
            ) from None
        return created

    def _list_runs_without_doubles(self) -> dict[str, _KnownRun]:
        """The runs by key; of runs with equal keys one that has ended, else the one with the first id."""
        runs: dict[str, _KnownRun] = {}
        for run in sorted(self._iter_runs(), key=lambda run: (run.info.status == _RUNNING, run.info.run_id)):
            key = run.data.tags.get(TRIAL_TAG, "")
            if key in runs:
                self._client.delete_run(run.info.run_id)
            else:
                content = "" if run.info.status == _RUNNING else run.data.tags.get(CONTENT_TAG, "")
                tags = {name for name in run.data.tags if name.startswith(_PREFIX)} - _KEPT_TAGS
                runs[key] = _KnownRun(run.info.run_id, content, {*run.data.params}, tags)
        return runs

    def _iter_runs(self) -> Iterator[Run]:
        where, token = f"tags.`{STUDY_TAG}` = '{self._study.key}'", None
        while True:
            page = self._client.search_runs([self._experiment_id], where, max_results=_PAGE, page_token=token)
            yield from page
            token = page.token
            if not token:
                return

    def _create_run(self, key: str, name: str, started_at: datetime, tags: Mapping[str, str]) -> _KnownRun:
        all_tags = {STUDY_TAG: self._study.key, TRIAL_TAG: key, _DIGEST_TAG: self._study.digest, **tags}
        start = _to_milliseconds(started_at)
        run = self._client.create_run(self._experiment_id, start, tags=all_tags, run_name=shorten(name))
        self._runs[key] = _KnownRun(run.info.run_id, last_step=0)
        return self._runs[key]

    def write_trial(self, trial: TrackedTrial) -> bool:
        """Create the run of a trial, or add what it lacks."""
        known = self._runs.get(trial.key)
        if known is not None and trial.has_ended and known.content == trial.digest:
            return False
        with self._errors():
            parent = {"mlflow.parentRunId": self._runs[_STUDY_RUN].run_id}
            run = known or self._create_run(trial.key, trial.label, trial.started_at, parent)
            params, epochs = self._list_missing_params(run, trial), self._list_missing_epochs(run, trial)
            tags = {"state": trial.state.value, "reason": trial.reason, CONTENT: trial.digest}
            self._log_values(run, params, epochs, _make_tags(tags) if trial.has_ended else ())
            if trial.has_ended:
                self._set_status(run, _STATUS_OF_TRIAL[trial.state], trial.ended_at, trial.digest)
        return known is None or bool(params or epochs) or trial.has_ended

    def _list_missing_params(self, run: _KnownRun, trial: TrackedTrial) -> list[Param]:
        texts = {make_name(name): make_parameter_text(value) for name, value in trial.parameters.items()}
        return [Param(name, text) for name, text in texts.items() if name not in run.params]

    def _list_missing_epochs(self, run: _KnownRun, trial: TrackedTrial) -> list[TrackedEpoch]:
        if run.last_step is None and trial.epochs:
            history = self._client.get_metric_history(run.run_id, _LAST_METRIC)
            run.last_step = max((metric.step for metric in history), default=0)
        return [epoch for epoch in trial.epochs if epoch.epoch > (run.last_step or 0)]

    def _log_values(
        self, run: _KnownRun, params: Sequence[Param], epochs: Sequence[TrackedEpoch], tags: Sequence[RunTag]
    ) -> None:
        """Log parameters and whole epochs in batches of the size that MLflow accepts, with the last one the tags.

        Tags replace those of an earlier end, such as the reason of a failure before a retry.
        """
        names = {tag.key for tag in tags}
        for name in sorted(run.tags - names) if tags else ():
            self._client.delete_tag(run.run_id, name)
            run.tags.remove(name)
        epochs_each = _MAX_METRICS // max(1, *(len(epoch.metrics) for epoch in epochs), 1)
        batches = [
            *zip_longest(
                (params[start : start + _MAX_PARAMS] for start in range(0, len(params), _MAX_PARAMS)),
                (epochs[start : start + epochs_each] for start in range(0, len(epochs), epochs_each)),
                fillvalue=(),
            )
        ] or [((), ())] * bool(tags)
        for left, (some_params, some_epochs) in zip(reversed(range(len(batches))), batches, strict=True):
            metrics = [metric for epoch in some_epochs for metric in _make_metrics(epoch)]
            self._client.log_batch(run.run_id, metrics, some_params, () if left else tags, synchronous=True)
            run.params.update(param.key for param in some_params)
            run.tags.update(() if left else names)
            run.last_step = some_epochs[-1].epoch if some_epochs else run.last_step

    def _set_status(self, run: _KnownRun, status: str, ended_at: datetime, content: str) -> None:
        """Set the status of a run, with the time of its end; a running one has none."""
        if status == _RUNNING:
            self._client.update_run(run.run_id, status=status)
        else:
            self._client.set_terminated(run.run_id, status, _to_milliseconds(ended_at))
        run.content = content

    def write_summary(self, summary: TrackedSummary) -> bool:
        """Write the ranked table as an artifact and the verdict as tags of the run of the study."""
        run = self._runs[_STUDY_RUN]
        if run.content == summary.digest:
            return False
        with self._errors():
            self._client.log_text(run.run_id, self._study.specification, "study.json")
            self._client.log_text(run.run_id, summary.csv, TABLE_FILE)
            self._client.log_text(run.run_id, summary.text, "ranked.md")
            tags = {"state": summary.state.value, **summary.verdict, CONTENT: summary.digest}
            self._log_values(run, (), (), _make_tags(tags))
            self._set_status(run, _STATUS_OF_STUDY.get(summary.state, _RUNNING), summary.ended_at, summary.digest)
        return True

    def find_network(self, digest: str) -> str | None:
        """The registered version of the network with this digest; None without it."""
        with self._errors():
            found = self._client.search_model_versions(f"name = '{self._study.name}'")
            versions = [version for version in found if version.tags.get(CONTENT_TAG) == digest]
        return f"{versions[0].name} version {versions[0].version}" if versions else None

    def register_network(self, network: RecommendedNetwork) -> str:
        """Register a network as a version of the model that has the name of the study."""
        from bln_search.integrations.trackers.mlflow_model import register_model_version  # noqa: PLC0415

        with self._errors():
            tags = {STUDY_TAG: self._study.key, CONTENT_TAG: network.digest}
            run_id = self._runs[_STUDY_RUN].run_id
            return register_model_version(self._client, self._study.name, run_id, network, tags)

    def close(self) -> None:
        """Do nothing: requests of MLflow leave nothing open."""

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Translate errors of MLflow, of connections, of databases, and of packages that a kind of URI needs."""
        try:
            yield
        except (MlflowException, OSError, SQLAlchemyError, ImportError) as error:
            if isinstance(error.__context__, OSError):  # of the connection
                raise TrackerError(f"{self.target} does not answer: start the server, or correct the URI") from None
            text = self.target.redact(str(error)).strip() or type(error).__name__
            raise TrackerError(f"{self.target} cannot be used: {text.splitlines()[0]}") from None


def _make_metrics(epoch: TrackedEpoch) -> list[Metric]:
    at = _to_milliseconds(epoch.at)
    return [Metric(name, value, at, epoch.epoch) for name, value in epoch.metrics.items()]


def _make_tags(texts: Mapping[str, str]) -> list[RunTag]:
    """Tags of bln-search; without those that are empty."""
    return [RunTag(f"{_PREFIX}{name}", make_tag_text(text)) for name, text in texts.items() if text]


def _to_milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
