"""Leaderboards of finished studies, from the ledger: `python -m bench.documents.tables STUDY ... --save`.

Each file holds every row with mean and deviation over seeds, the values of every seed, and the environment.
"""

from __future__ import annotations

import json
from typing import Any

from bench.support.reporting import RESULTS, make_parser, provenance
from bln_search.core.enums import Split
from bln_search.reports.export import row_to_json_fields
from bln_search.settings import load_settings
from bln_search.specs.sections.space import format_point
from bln_search.storage.ledger import Ledger, open_and_upgrade_ledger


def read_leaderboard(ledger: Ledger, name: str, trained_at: str | None = None) -> dict[str, Any]:
    """Return the leaderboard of a study as JSON values. trained_at: git revision of the training."""
    environment = provenance()
    study = ledger.studies.get_by_name_or_id(name)
    board = ledger.results.rank_rows_of_study(study.id, study.spec)
    by_seed: dict[str, dict[str, Any]] = {}
    by_condition: dict[str, dict[str, dict[str, Any]]] = {}
    for record in ledger.results.list_evaluations_for_ranking(study.id):
        key = record.evaluation.key
        point_label = " ".join(part for part in (record.arm, format_point(json.loads(record.point or "{}"))) if part)
        row = f"{point_label} {key.configuration} {key.estimate or '-'} {key.batch_size}"
        rows = by_condition.setdefault(key.condition, {}) if key.condition else by_seed
        rows.setdefault(row, {})[f"{key.split} seed {record.seed}"] = [
            record.evaluation.loss,
            record.evaluation.accuracy,
        ]
    trials = ledger.trials.list_trials(study.id)
    return {
        "study": study.name,
        "title": study.spec.title,
        "state": study.state,
        "ranked_on": board.ranked_on,
        "spec": study.spec.model_dump(mode="json"),
        "rows": [row_to_json_fields(row) for row in board.rows],
        "loss_and_accuracy_by_seed": by_seed,
        **({"loss_and_accuracy_by_condition": by_condition} if by_condition else {}),
        "kept_epochs": {
            " ".join(
                part for part in (trial.arm, trial.point_label, f"seed {trial.seed}") if part
            ): trial.checkpoint.epoch
            for trial in trials
            if trial.checkpoint
        },
        "trained_with": [trial.checkpoint.provenance for trial in trials if trial.checkpoint][:1],
        "trained_at_revision": trained_at or environment["revision"],
        "written": environment,
    }


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.add_argument("studies", nargs="+", help="names of finished studies")
    parser.add_argument("--database", help="database URL")
    parser.add_argument("--trained-at", help="git revision the networks were trained with, if another than this one")
    options = parser.parse_args()
    ledger = open_and_upgrade_ledger(options.database or load_settings().database_url)
    result = {}
    for name in options.studies:
        saved = read_leaderboard(ledger, name, options.trained_at)
        best = saved["rows"][0]
        accuracy = f"{Split.TEST}_accuracy_mean"
        result[name] = {"best": best["configuration"], "population": best["population"], accuracy: best[accuracy]}
        print(f"{name}: {best['configuration']} ({best['population']}), test accuracy {best[accuracy]:.4f}")
        if options.save:
            (RESULTS / f"{name}.json").write_text(json.dumps(saved, indent=1, allow_nan=False) + "\n")
    ledger.close()
    print(json.dumps(result, allow_nan=False))


if __name__ == "__main__":
    main()
