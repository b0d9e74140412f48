"""Studies for the queue, and whether their workers are alive."""

from __future__ import annotations

from bln_search.specs import parse_study

CAP = 100


def study(name="study", seeds="0"):
    return parse_study(
        f"{{name: {name}, data: {{name: digits}}, model: {{name: mlp}}, arms: [{{method: bln}}], seeds: [{seeds}]}}"
    )


def all_are_alive(_worker):
    return True


def none_is_alive(_worker):
    return False


def find_study(ledger, study_id):
    return ledger.study_lists.find_study_item(study_id)


def event_kinds(ledger, study_id):
    return [event.kind for event in ledger.events.list_events(study_id)]
