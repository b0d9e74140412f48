"""Text about a study that adds seeds until it is decided: which arms are still open, and why others are not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from bln_search.core.states import ENDED, TrialState
from bln_search.reports.sentences.leaderboard import format_sentence
from bln_search.specs.study import StudySpec


class _Trial(Protocol):
    @property
    def arm(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def state(self) -> TrialState: ...
    @property
    def reason(self) -> str | None: ...


def seed_looks_sentence(study: StudySpec, trials: Iterable[_Trial]) -> str:
    """The open arms, the next look, and the arms that are out; empty for a study with listed seeds.

    Args:
        study: The study.
        trials: All its trials.
    """
    looks = study.planned_looks
    if not looks:
        return ""
    trials = list(trials)
    pruned = {trial.arm: trial for trial in trials if trial.state is TrialState.PRUNED}
    missing = [trial.seed for trial in trials if trial.state not in ENDED]
    done = max((look for look in looks if look <= min(missing, default=looks[-1])), default=0)
    open_arms = [arm.label for arm in study.arms if arm.label not in pruned]
    following = next((look for look in looks if look > done), done)
    if not missing:
        trained = 1 + max(trial.seed for trial in trials if trial.state is not TrialState.PRUNED)
        text = f"ended after {trained} of at most {looks[-1]} seeds"
        if any((trial.reason or "").startswith("not needed: after") for trial in pruned.values()):
            text += ", because more are unlikely to decide"
    elif done:
        text = (
            f"{len(open_arms)} of {len(study.arms)} arms still open after {done} seeds; next look at {following} seeds"
        )
    else:
        text = f"first look at {following} seeds"
    by_reason: dict[str, list[str]] = {}
    for arm, trial in pruned.items():
        if trial.reason is not None and trial.reason.startswith("out"):
            by_reason.setdefault(trial.reason, []).append(arm)
    parts = [text, *(f"{', '.join(arms)}: {reason}" for reason, arms in by_reason.items())]
    return format_sentence("; ".join(parts))
