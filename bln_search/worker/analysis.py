"""What a study's results say, worked out where SciPy and the networks are, and kept for all who read."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Engine

from bln_search.core.enums import ProbeKind, Split
from bln_search.core.errors import BlnSearchError, DamagedRecordError, LedgerError, StorageFullError
from bln_search.core.states import StudyState
from bln_search.execution.environment import Place
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.comparison import MOST_ROWS, Comparison
from bln_search.ranking.grouping import Losses
from bln_search.ranking.leaderboard import Candidate, Leaderboard, rank
from bln_search.ranking.paired import OutcomeTable, compare
from bln_search.ranking.selection.recommendation import Recommendation, recommend
from bln_search.ranking.selection.selection_bias import selection
from bln_search.ranking.study_effects import condition_effects, figures_by_row, variance_shares
from bln_search.specs.study import StudySpec
from bln_search.storage.analyses import find_analysis, keep_analysis, results_of
from bln_search.storage.evaluations import RecordedEvaluation, evaluations
from bln_search.storage.ledger import Ledger
from bln_search.storage.outcomes import outcomes_of
from bln_search.storage.probes import probes_of
from bln_search.worker.baseline_check import study_doubt
from bln_search.worker.latencies import latencies
from bln_search.worker.layer_results import layer_results
from bln_search.worker.layer_search import StoppedError, search_layers

_log = logging.getLogger(__name__)

_MOST_VALUES = 32_000_000
"""Losses (rows × seeds × examples) that are compared at once."""


@dataclass(frozen=True)
class Attended:
    """Who waits for an analysis. say: told how a long search of layers goes. stopping: is it to end now?

    workers: networks whose layers are searched side by side; None leaves that to the search.
    """

    say: Callable[[str], None] = _log.info
    workers: int | None = None
    stopping: Callable[[], bool] = lambda: False


@dataclass(frozen=True)
class Searched:
    """How a search of layers went that was just made. reason: why networks are without one; None where it went well."""

    reason: str | None = None


def analyzed(ledger: Ledger, study_id: int, place: Place, attended: Attended | None = None) -> Analysis:
    """The analysis of the study's present results, made and kept where there is none. place: to measure latencies."""
    kept = find_analysis(ledger.engine, study_id)
    return kept.analysis if kept is not None else analyze(ledger, study_id, place, attended)


def analyze(
    ledger: Ledger,
    study_id: int,
    place: Place | None,
    attended: Attended | None = None,
    *,
    keep: bool = True,
    searched: Searched | None = None,
) -> Analysis:
    """Work the study's results out; of a complete study it is kept.

    place: where networks are timed, and their layers searched where the study asks for it; None keeps what is known.
    searched: how a search of layers went that was made before this.
    What is wrong with the results stands in the analysis. Raises LedgerError and StorageFullError; and StoppedError
    where a search of layers was asked to stop: it goes on from there another time.
    """
    results = results_of(ledger.engine, study_id)
    place = None if place is None else place.here
    try:
        if place is not None:
            searched = _search_layers(ledger, study_id, place, attended or Attended())
        analysis = _analysis(ledger, study_id, place)
        if searched is not None:
            analysis = analysis.model_copy(update={"layers_reason": searched.reason})
    except DamagedRecordError as error:  # it is so for whoever tries, and others wait behind it
        analysis = Analysis(reason=str(error))
    except (LedgerError, StorageFullError, StoppedError):
        raise
    except BlnSearchError as error:
        analysis = Analysis(reason=str(error))
    except Exception as error:  # noqa: BLE001 - figures of a study must not be lost for its analysis
        _log.exception("study %d: not analysed", study_id, extra={"study_id": study_id})
        analysis = Analysis(reason=f"{type(error).__name__}: {error}")
    if keep and ledger.study(study_id).state is StudyState.COMPLETE:
        keep_analysis(ledger.engine, study_id, results, analysis, ledger.clock())
    return analysis


def _search_layers(ledger: Ledger, study_id: int, place: Place, attended: Attended) -> Searched:
    """Search per-layer configurations where a complete study asks for it; the rest is not lost for what goes wrong."""
    study = ledger.study(study_id)
    if study.spec.layers is None or study.state is not StudyState.COMPLETE:
        return Searched()
    try:
        search_layers(
            ledger,
            study_id,
            place,
            study.spec.layers,
            attended.say,
            workers=attended.workers,
            stopping=attended.stopping,
        )
    except DamagedRecordError as error:
        return Searched(str(error))
    except (LedgerError, StorageFullError, StoppedError):
        raise
    except BlnSearchError as error:
        _log.warning("study %d: layers not searched: %s", study_id, error, extra={"study_id": study_id})
        return Searched(str(error))
    except Exception as error:  # noqa: BLE001 - a process of it that dies must not take the analysis with it
        _log.exception("study %d: layers not searched", study_id, extra={"study_id": study_id})
        return Searched(f"{type(error).__name__}: {error}")
    return Searched()


def _analysis(ledger: Ledger, study_id: int, place: Place | None) -> Analysis:
    study = ledger.study(study_id)
    recorded = evaluations(ledger.engine, study_id)
    board = rank((one.scored for one in recorded), study.spec.ranking.split, seeds=len(study.spec.seeds))
    found, reason = study_comparison(ledger.engine, recorded, board)
    layers = layer_results(ledger, study_id)
    kept = find_analysis(ledger.engine, study_id) if place is None else None
    known = Analysis() if kept is None else kept.analysis
    doubt = known.doubt if place is None else study_doubt(board, study.spec.data, place)
    if found is None:
        return Analysis(
            selection=selection(board), doubt=doubt, layers=layers, layers_reason=known.layers_reason, reason=reason
        )
    recommendation = recommend(found, _at_sizes(ledger, study_id), per_slot=_has_places(study.spec))
    arms = {(row.arm, row.point) for row in found.rows}
    figures = figures_by_row((one.scored for one in recorded), arms)
    timed = known if place is None else _timed(ledger, study_id, recommendation, place)
    return Analysis(
        comparison=found,
        selection=selection(board),
        recommendation=recommendation,
        doubt=doubt,
        effects=condition_effects(figures),
        shares=variance_shares(figures),
        latencies=timed.latencies,
        device=timed.device,
        threads=timed.threads,
        layers=layers,
        layers_reason=known.layers_reason,
    )


def _timed(ledger: Ledger, study_id: int, recommended: Recommendation, place: Place) -> Analysis:
    """Latencies and where they were measured; empty where that cannot be done here, and the rest is not lost for it."""
    try:
        measured = latencies(ledger, study_id, recommended, place)
    except BlnSearchError as error:
        _log.warning("study %d: latencies not measured: %s", study_id, error, extra={"study_id": study_id})
    except Exception:  # noqa: BLE001 - as above
        _log.exception("study %d: latencies not measured", study_id, extra={"study_id": study_id})
    else:
        if measured:
            return Analysis(latencies=measured, device=place.device, threads=place.threads)
    return Analysis()


def _has_places(study: StudySpec) -> bool:
    """Are there values of a place in the mini-batch? There is one place where networks are trained with one example."""
    alone = study.training.batch_size == 1 and "training.batch_size" not in (study.space or {})
    return study.evaluation.per_slot and not alone


def study_comparison(
    engine: Engine, recorded: Sequence[RecordedEvaluation], board: Leaderboard, only: Sequence[Candidate] | None = None
) -> tuple[Comparison | None, str | None]:
    """The best ranked rows compared on the split that decides, or why they cannot be.

    recorded: every evaluation of the study, from which `board` was made. only: of these rows.
    """
    wanted = None if only is None else set(only)
    ranked = [
        row.candidate for row in board.rows if row.rank is not None and (wanted is None or row.candidate in wanted)
    ]
    if len(ranked) < 2:
        return None, "fewer than two rows are ranked: there is nothing to compare"
    by_row = _by_row(recorded, board.ranked_on)
    first = by_row[ranked[0]]
    seeds = sorted(first)
    examples = first[seeds[0]].evaluation.n
    most = min(MOST_ROWS, _MOST_VALUES // (len(seeds) * examples))
    chosen = [row for row in ranked[:most] if sorted(by_row[row]) == seeds]
    if len(chosen) < 2:
        return None, f"{len(seeds)} seeds of {examples} examples are too many to compare at once"
    outcomes = outcomes_of(engine, [by_row[row][seed].id for row in chosen for seed in seeds])
    losses = np.empty((len(seeds), len(chosen), examples), np.float32)
    correct = np.empty(losses.shape, np.bool_)
    for place, row in enumerate(chosen):
        for line, seed in enumerate(seeds):
            one = outcomes.get(by_row[row][seed].id)
            if one is None or len(one.losses) != examples:
                return None, "the outcomes of single examples are not kept for all rows"
            losses[line, place], correct[line, place] = one.losses, one.correct
    table = OutcomeTable(losses, correct)
    return compare(chosen, table, board.ranked_on, left_out=len(ranked) - len(chosen)), None


def _by_row(recorded: Sequence[RecordedEvaluation], split: Split) -> dict[Candidate, dict[int, RecordedEvaluation]]:
    found: dict[Candidate, dict[int, RecordedEvaluation]] = defaultdict(dict)
    for one in recorded:
        key = one.evaluation.key
        if key.split is split:
            found[one.arm, one.point, key.configuration, key.estimate, key.batch_size][one.seed] = one
    return found


def _at_sizes(ledger: Ledger, study_id: int) -> dict[int, dict[Candidate, Losses]]:
    """Losses by seed at other inference mini-batch sizes, as far as they were probed."""
    found: dict[int, dict[Candidate, Losses]] = {}
    for one in probes_of(ledger.engine, study_id, kinds=[ProbeKind.SIZE]):
        found.setdefault(one.probe.key.batch_size, {}).setdefault(one.row, {})[one.seed] = one.probe.loss
    return found
