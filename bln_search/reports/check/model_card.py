"""A finished check as the front matter and a section of a model card for the Hugging Face Hub."""

from __future__ import annotations

from bln_search.ranking.network_check import CheckedVariant, NetworkCheck
from bln_search.reports.card_front_matter import LIBRARY, CardMetric, CardResult, render_front_matter
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
    result = CardResult(task, data.lower().replace(" ", "-"), data, _metrics(check, row))
    lines = [
        render_front_matter({"tags": ["batch-normalization", LIBRARY]}, name, [result]).rstrip(),
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


def _metrics(check: NetworkCheck, row: CheckedVariant) -> list[CardMetric]:
    metrics = []
    if row.accuracy is not None:
        metrics.append(CardMetric("accuracy", row.accuracy, "accuracy"))
    if row.loss is not None:
        metrics.append(CardMetric("loss", row.loss, f"mean {check.loss_name}"))
    return metrics


def _table_row(row: CheckedVariant) -> str:
    loss = "not finite" if row.loss is None else format_loss(row.loss)
    accuracy = "–" if row.accuracy is None else f"{100 * row.accuracy:.2f} %"
    return f"| {VARIANT_SENTENCES[row.variant]} | {row.batch_size} | {loss} | {accuracy} |"
