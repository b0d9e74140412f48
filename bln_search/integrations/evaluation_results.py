"""The results of the evaluation that a callback for a trainer runs, as its attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bln_search.api.check.report import CheckReport
from bln_search.integrations.ranked_metrics import Ranked
from bln_search.integrations.training_evaluation import TrainingEvaluation


class EvaluationResults:
    """A base class of callbacks, whose evaluation is `_evaluation`."""

    _evaluation: TrainingEvaluation

    @property
    def ranked(self) -> Ranked | None:
        """The ranked table of the latest evaluation."""
        return self._evaluation.ranked

    @property
    def report(self) -> CheckReport | None:
        """The report of the latest check."""
        return self._evaluation.report

    @property
    def history(self) -> Sequence[Mapping[str, float]]:
        """The metrics of each evaluation."""
        return self._evaluation.history

    @property
    def error(self) -> Exception | None:
        """Why the latest evaluation failed."""
        return self._evaluation.error
