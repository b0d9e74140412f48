"""Tables of the survey in docs/networks.md, from bench/results/zoo_survey.json; see `bench.documents.zoo_page`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bench.support.reporting import read_result
from bench.support.zoo.survey_evaluation import KEPT

BLOCK = "survey"
STATUSES = ("converted", "partly converted", "refused", "no normalization layer", "not built")


def block() -> str:
    """Return the text between the markers."""
    saved = read_result("zoo_survey")
    assert saved is not None
    result, entries = saved["result"], saved["result"]["entries"]
    incomplete = (entry for entry in entries if entry["status"] in ("partly converted", "refused", "not built"))
    lines = [
        _conversion_text(result, saved["provenance"]),
        "",
        *_table(("library", *STATUSES), (_status_row(*item) for item in result["statuses"].items())),
        "",
        "Networks that keep normalization layers:",
        "",
        *_table(("network", "result", "layers that stay"), map(_kept_row, incomplete)),
        "",
        _evaluation_text(result),
        "",
        *_table(
            ("network", "normalization layers", "pixels", "rows", "change by conversion", "losses", "evaluation"),
            (_evaluation_row(entry) for entry in entries if "evaluation" in entry),
        ),
    ]
    return "\n".join(lines) + "\n"


def _conversion_text(result: dict[str, Any], provenance: dict[str, Any]) -> str:
    versions = {"torch": provenance["versions"]["torch"], **result["versions"]}
    return (
        f"On {provenance['hardware']}, {', '.join(map(' '.join, versions.items()))}; `bench/results/zoo_survey.json`. "
        f'{result["networks"]} networks were converted with `method="same"`: a small one of each module of timm, all '
        "of torchvision, and some of transformers."
    )


def _evaluation_text(result: dict[str, Any]) -> str:
    ill_conditioned, rows = result["ill_conditioned_rows"], result["rows"]
    return (
        f"{result['evaluated']} of the networks with at most {result['largest'] / 1e6:.0f} million parameters were "
        f"evaluated with {result['batches']} mini-batches of {result['batch_size']} examples: {result['in_one_pass']} "
        f"in one pass, {result['evaluated'] - result['in_one_pass']} with `one_pass=False` because the one pass "
        f"refuses them. {len(result['failed'])} were not evaluated. *Change by conversion*: the largest change of an "
        f"output, at most {_format(result['max_change_by_conversion'])}. *Losses*: the largest difference of a loss "
        "from that of a plain loop in single precision, at most "
        f"{_format(result['max_relative_difference_of_losses'])} in one pass; without "
        f"{ill_conditioned} [ill-conditioned](#ill-conditioned-rows) of {rows} rows."
    )


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (header, ("---",) * len(header), *rows)]


def _status_row(library: str, counts: dict[str, int]) -> tuple[str, ...]:
    return library, *(str(counts.get(status, 0)) for status in STATUSES)


def _kept_row(entry: dict[str, Any]) -> tuple[str, ...]:
    reason: str = entry["reason"].removeprefix(f"{KEPT} and stay as they are: ")
    if "; it has " in reason:
        reason = reason.partition("; it has ")[2].rpartition(": add BLN layers")[0]
    return _name(entry), entry["status"], reason


def _evaluation_row(entry: dict[str, Any]) -> tuple[str, ...]:
    evaluation = entry["evaluation"]
    start = _name(entry), entry["layers"], str(evaluation.get("pixels") or "")
    if "failed" in evaluation:
        return *start, "", "", "", f"not evaluated: {evaluation['failed']}"
    how = "one pass" if evaluation["one_pass"] else f"one by one: {_shorten(evaluation['refusal'])}"
    return *start, str(evaluation["rows"]), _format(evaluation["changed"]), _format(evaluation["losses"]), how


def _shorten(refusal: str) -> str:
    """Return the reason of a refusal without the class of the error and the advice."""
    return refusal.partition(": ")[2].partition("; evaluate with")[0].partition(": keep ")[0]


def _name(entry: dict[str, Any]) -> str:
    return f"{entry['network']} ({entry['library']})"


def _format(difference: float) -> str:
    return f"{difference:.0e}" if difference else "0"
