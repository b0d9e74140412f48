"""Analyses a study after each planned number of seeds, and releases or ends the trials of further seeds."""

from __future__ import annotations

from collections.abc import Callable

from bln_search.core.states import ENDED, TrialState
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.comparison import Comparison, Verdict
from bln_search.reports.sentences.seed_looks import seed_looks_sentence
from bln_search.specs.records import StudyRecord, TrialRecord
from bln_search.storage.ledger import Ledger
from bln_search.worker.analysis import compute_analysis_of_look

_FUTILE_FACTOR = 2
"""Seeds are not added where their required number is above the largest allowed one by more than this factor."""


class SeedLooks:
    """The planned looks of a study that adds seeds until it is decided; none for a study with listed seeds.

    The ledger is the only state: the stored analysis contains the looks so far. The last look is the analysis of the
    complete study, and not made here.

    Args:
        ledger: Ledger with the study.
        study: The study.
        on_look: Called after each look with a line about what is still open.
    """

    def __init__(self, ledger: Ledger, study: StudyRecord, on_look: Callable[[str], None] = lambda _: None) -> None:
        self.ledger, self.study_id, self.spec, self.on_look = ledger, study.id, study.spec, on_look
        looks = ledger.analyses.list_looks_by_study(study.id).get(study.id, ()) if study.spec.planned_looks else ()
        self._next_looks = [look for look in study.spec.planned_looks if look > max(looks, default=0)]
        self._has_news = True

    @property
    def released_seeds(self) -> range | None:
        """The seeds up to the next look; None for all seeds."""
        return range(self._next_looks[0]) if self._next_looks else None

    @property
    def is_blocked(self) -> bool:
        """Whether only failed trials are left up to the next look, for which the others wait."""
        seeds = self.released_seeds
        return seeds is not None and self._list_open_states(seeds) == {TrialState.FAILED}

    def _list_open_states(self, seeds: range) -> set[TrialState]:
        return self.ledger.trials.list_states_of_seeds(self.study_id, seeds) - set(ENDED)

    def note_trial_end(self) -> None:
        """A trial has ended, so that the next look may be due."""
        self._has_news = True

    def release_next_trials(self) -> list[TrialRecord]:
        """The trials of the next seeds after a look that is due now; empty where there are none."""
        while self._has_news and len(self._next_looks) > 1:
            seeds, next_seeds = self._next_looks[:2]
            if self._list_open_states(range(seeds)) or not self._list_open_states(range(self._next_looks[-1])):
                break  # the look is not due yet, or not needed any more
            self._look(seeds)
            del self._next_looks[0]
            ids = self.ledger.trials.list_claimable_trial_ids(self.study_id, range(seeds, next_seeds))
            if ids:
                return self.ledger.trials.load_trials(self.study_id, ids)
        self._has_news = False
        return []

    def _look(self, seeds: int) -> None:
        """Analyse the study after this many seeds, and end the trials that are not needed.

        The analysis is stored last: a kill before it repeats the look, which has the same result.
        """
        analysis = compute_analysis_of_look(self.ledger, self.study_id, seeds)
        reasons = self._find_unneeded_arms(analysis, seeds)
        if reasons:
            self.ledger.trials.prune_waiting_trials(self.study_id, reasons)
        self.ledger.analyses.save_analysis_of_look(self.study_id, analysis)
        self.on_look(seed_looks_sentence(self.spec, self.ledger.trials.list_trials(self.study_id)))

    def _find_unneeded_arms(self, analysis: Analysis, seeds: int) -> dict[str, str]:
        arms = [arm.label for arm in self.spec.arms]
        comparison, recommendation = analysis.comparison, analysis.recommendation
        if comparison is None or recommendation is None:
            return {}
        if recommendation.verdict is not Verdict.CANNOT_TELL:
            return dict.fromkeys(arms, f"not needed: decided after {seeds} seeds")
        if self._is_futile(comparison, seeds):
            return dict.fromkeys(
                arms, f"not needed: after {seeds} seeds, {self._next_looks[-1]} are unlikely to decide"
            )
        if comparison.not_compared:
            return {}
        compared = {row.arm for row in comparison.rows}
        open_arms = {row.arm for row in comparison.rows_not_worse} | {recommendation.arm}
        cause = {arm: "significantly worse" if arm in compared else "no row has a rank" for arm in arms}
        return {arm: f"out after {seeds} seeds, {cause[arm]}" for arm in arms if arm not in open_arms}

    def _is_futile(self, comparison: Comparison, seeds: int) -> bool:
        """Whether all seeds that may be added are unlikely to decide; after the first look that is too uncertain."""
        required, planned = comparison.required, self.spec.planned_looks
        if required is None or seeds == planned[0]:
            return False
        return required.seeds is None or required.seeds > _FUTILE_FACTOR * planned[-1]
