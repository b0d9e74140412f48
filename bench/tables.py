"""Ranked tables of finished studies, out of the ledger: `python -m bench.tables STUDY ... --save`.

Each table holds every row with mean and deviation over seeds, every seed's figures, and what they were measured with.
"""

from __future__ import annotations

import json
from typing import Any

from bench.reporting import RESULTS, arguments, provenance
from bln_search.core.enums import Split
from bln_search.reports.export import flat_row
from bln_search.settings import load_settings
from bln_search.specs.space import point_label
from bln_search.storage.board import study_leaderboard
from bln_search.storage.evaluations import evaluations
from bln_search.storage.ledger import Ledger, open_ledger
from bln_search.storage.queries import trials


def table(ledger: Ledger, name: str, trained_at: str | None = None) -> dict[str, Any]:
    """The ranked table of a study as plain values. trained_at: git revision the networks were trained with."""
    written = provenance()
    study = ledger.find_study(name)
    board = study_leaderboard(ledger.engine, study.id, study.spec)
    by_seed: dict[str, dict[str, Any]] = {}
    for one in evaluations(ledger.engine, study.id):
        key = one.evaluation.key
        named = " ".join(part for part in (one.arm, point_label(json.loads(one.point or "{}"))) if part)
        row = f"{named} {key.configuration} {key.estimate or '-'} {key.batch_size}"
        by_seed.setdefault(row, {})[f"{key.split} seed {one.seed}"] = [one.evaluation.loss, one.evaluation.accuracy]
    trained = trials(ledger.engine, study.id)
    return {
        "study": study.name,
        "title": study.spec.title,
        "state": study.state,
        "ranked_on": board.ranked_on,
        "spec": study.spec.model_dump(mode="json"),
        "rows": [flat_row(row) for row in board.rows],
        "loss_and_accuracy_by_seed": by_seed,
        "kept_epochs": {
            " ".join(part for part in (t.arm, t.parameters, f"seed {t.seed}") if part): t.checkpoint.epoch
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
    found = {}
    for name in options.studies:
        whole = table(ledger, name, options.trained_at)
        best = whole["rows"][0]
        accuracy = f"{Split.TEST}_accuracy_mean"
        found[name] = {"best": best["configuration"], "population": best["population"], accuracy: best[accuracy]}
        print(f"{name}: {best['configuration']} ({best['population']}), test accuracy {best[accuracy]:.4f}")
        if options.save:
            (RESULTS / f"{name}.json").write_text(json.dumps(whole, indent=1, allow_nan=False) + "\n")
    ledger.close()
    print(json.dumps(found, allow_nan=False))


if __name__ == "__main__":
    main()
