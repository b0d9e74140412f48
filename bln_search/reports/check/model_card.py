"""A finished check as the front matter and a section of a model card for the Hugging Face Hub."""

from __future__ import annotations

import yaml

from bln_search.ranking.network_check import CheckedVariant, NetworkCheck
from bln_search.reports.check.sentences import VARIANT_SENTENCES, verdict_sentence
from bln_search.reports.formatting import format_loss

_TASK = "image-classification"


def render_check_model_card(check: NetworkCheck, *, name: str, data: str, task: str = _TASK) -> str:
    """Markdown with front matter, whose `model-index` has the figures of the variant to deploy.

    Args:
        check: The check.
        name: Name of the model.
        data: Name of the validation data.
        task: Task type, as the Hub names it.
    """
    row = check.find(check.chosen)
    assert row is not None
    front = {
        "tags": ["batch-normalization", "bln-search"],
        "model-index": [
            {
                "name": name,
                "results": [
                    {
                        "task": {"type": task},
                        "dataset": {"name": data, "type": data.lower().replace(" ", "-")},
                        "metrics": _metrics(check, row),
                    }
                ],
            }
        ],
    }
    lines = [
        "---",
        yaml.safe_dump(front, sort_keys=False, allow_unicode=True).strip(),
        "---",
        f"# {name}",
        "",
        "## Statistics of the normalization layers",
        "",
        verdict_sentence(check),
        "",
        "| network | mini-batch | loss | accuracy |",
        "| --- | ---: | ---: | ---: |",
        *(_table_row(each) for each in check.variants),
        "",
        *(f"- **{finding.cause}**: {finding.evidence} {finding.remedy}" for finding in check.findings),
        *([""] if check.findings else []),
        f"Measured on {check.examples:,} examples of {data} with bln-search {check.versions['bln-search']}, torch "
        f"{check.versions['torch']}.",
    ]
    return "\n".join(lines) + "\n"


def _metrics(check: NetworkCheck, row: CheckedVariant) -> list[dict[str, object]]:
    metrics: list[dict[str, object]] = []
    if row.accuracy is not None:
        metrics.append({"type": "accuracy", "value": round(row.accuracy, 6), "name": "accuracy"})
    if row.loss is not None:
        metrics.append({"type": "loss", "value": round(row.loss, 6), "name": f"mean {check.loss_name}"})
    return metrics


def _table_row(row: CheckedVariant) -> str:
    loss = "not finite" if row.loss is None else format_loss(row.loss)
    accuracy = "–" if row.accuracy is None else f"{100 * row.accuracy:.2f} %"
    return f"| {VARIANT_SENTENCES[row.variant]} | {row.batch_size} | {loss} | {accuracy} |"
