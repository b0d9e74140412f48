"""Leaderboards of finished studies, from the ledger: `python -m bench.documents.tables STUDY ... --save`.

Each file holds every row with mean and deviation over seeds, the values of every seed, and the environment.
"""

from __future__ import annotations

import json
from typing import Any

from bench.reporting import RESULTS, arguments, provenance
from bln_search.core.enums import Split
from bln_search.reports.export import flat_row
from bln_search.settings import load_settings
from bln_search.specs.space import format_point
from bln_search.storage.ledger import Ledger, open_ledger


def table(ledger: Ledger, name: str, trained_at: str | None = None) -> dict[str, Any]:
    """Return the leaderboard of a study as JSON values. trained_at: git revision of the training."""
    written = provenance()
    study = ledger.studies.find(name)
    board = ledger.results.rank_study(study.id, study.spec)
    by_seed: dict[str, dict[str, Any]] = {}
    for one in ledger.results.list_evaluations(study.id):
        key = one.evaluation.key
        named = " ".join(part for part in (one.arm, format_point(json.loads(one.point or "{}"))) if part)
        row = f"{named} {key.configuration} {key.estimate or '-'} {key.batch_size}"
        by_seed.setdefault(row, {})[f"{key.split} seed {one.seed}"] = [one.evaluation.loss, one.evaluation.accuracy]
    trained = ledger.trials.list_trials(study.id)
    return {
        "study": study.name,
        "title": study.spec.title,
        "state": study.state,
        "ranked_on": board.ranked_on,
        "spec": study.spec.model_dump(mode="json"),
        "rows": [flat_row(row) for row in board.rows],
        "loss_and_accuracy_by_seed": by_seed,
        "kept_epochs": {
            " ".join(part for part in (t.arm, t.point_label, f"seed {t.seed}") if part): t.checkpoint.epoch
            for t in trained
            if t.checkpoint
        },
        "trained_with": [t.checkpoint.provenance for t in trained if t.checkpoint][:1],
        "trained_at_revision": trained_at or written["revision"],
        "written": written,
    }


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("studies", nargs="+", help="names of finished studies")
    parser.add_argument("--database", help="database URL")
    parser.add_argument("--trained-at", help="git revision the networks were trained with, if another than this one")
    options = parser.parse_args()
    ledger = open_ledger(options.database or load_settings().database_url)
    result = {}
    for name in options.studies:
        saved = table(ledger, name, options.trained_at)
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
