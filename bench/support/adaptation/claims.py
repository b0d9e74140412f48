"""Claims about arms on streams: a difference holds, does not hold, is practically equal, or cannot be told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import bln_search
from bln_search.core.stream_outcomes import StreamRecord
from bln_search.ranking.comparison import RowVerdict
from bln_search.ranking.streams.arm_summary import StreamScore, score_replicates

PRACTICAL = 0.01
"""One percentage point of the error, set before the runs."""


def judge_order(records: Sequence[StreamRecord], worse: str, better: str) -> dict[str, Any]:
    """Say whether an arm has a higher error than another one, over networks (95 %).

    Args:
        records: Of both arms on the same streams.
        worse: The arm that has the higher error by the claim.
        better: The other arm.
    """
    scores = score_replicates([record for record in records if record.arm in (worse, better)], StreamScore.ERROR)
    if scores.keys() != {worse, better}:
        return {"worse": worse, "better": better, "verdict": "an arm ended early"}
    compared = bln_search.compare(scores, practical=PRACTICAL)
    other = compared.rows[1]
    sign = 1 if other.name == worse else -1
    if other.verdict is RowVerdict.WORSE:
        verdict = "holds" if sign > 0 else "does not hold"
    else:
        verdict = "practically equal" if other.verdict is RowVerdict.PRACTICALLY_EQUAL else "cannot tell"
    low, high = sorted((sign * other.low, sign * other.high))
    return {
        "worse": worse,
        "better": better,
        "difference": sign * other.difference,
        "low": low,
        "high": high,
        "verdict": verdict,
    }
