"""What a check says, in sentences that need no knowledge of this package."""

from __future__ import annotations

from bln_search.ranking.network_check import (
    BatchDependence,
    Calibration,
    CheckedCondition,
    CheckedVariant,
    CheckVerdict,
    Finding,
    NetworkCheck,
    Variant,
)
from bln_search.reports.formatting import format_loss

VARIANT_SENTENCES: dict[Variant, str] = {
    Variant.DEPLOYED: "as deployed",
    Variant.TRAINING_MODE: "in training mode, with its dropout",
    Variant.MINI_BATCH: "with the mean and variance of each mini-batch",
    Variant.RE_ESTIMATED: "with statistics estimated again from the training data",
    Variant.RE_ESTIMATED_ON_VALIDATION: "with statistics of these inputs",
    Variant.RE_ESTIMATED_ON_TARGET: "with statistics of the target inputs",
    Variant.EVALUATION_MODE: "with all modules in evaluation mode",
    Variant.DEFAULT_EPSILON: "with the default epsilon",
    Variant.EXCHANGED_STATISTICS: "with the exchanged statistics put right",
    Variant.RESCALED_INPUTS: "with inputs scaled as the training inputs",
}
"""Each variant as the end of a sentence that begins with "the network"."""


def verdict_sentence(check: NetworkCheck) -> str:
    """What to do, and how certain it is."""
    margin = f"{check.margin:.2g}{f' {check.loss_unit}' if check.loss_unit else ''}"
    if check.verdict is CheckVerdict.KEEP:
        return f"Leave it alone: no change tried is better by more than {margin} (95 % confidence)."
    if check.verdict is CheckVerdict.CANNOT_TELL:
        return (
            f"Cannot tell: with {check.examples:,} examples a change may or may not be better by more than {margin}. "
            "Leave it alone until more examples decide."
        )
    chosen = check.find(check.chosen)
    assert chosen is not None
    return f"Change it: the network is better {VARIANT_SENTENCES[check.chosen]}, {_gain_text(chosen)}."


def finding_lines(number: int, finding: Finding) -> list[str]:
    """A finding: its cause with the evidence, then the remedy, then code."""
    kind = "" if finding.has_effect else " (no effect on these data)"
    return [
        f"{number}. {finding.cause[0].upper()}{finding.cause[1:]}{kind}: {finding.evidence}",
        f"   → {finding.remedy}",
        *(f"       {line}" for line in finding.code.splitlines()),
    ]


def dependence_sentence(found: BatchDependence) -> str:
    """How much outputs depend on batch-mates."""
    changed = (
        ""
        if found.changed_predictions is None
        else f"; the prediction changes for {found.changed_predictions:.0%} of {found.examples} examples"
    )
    return (
        f"{found.variant[0].upper()}{found.variant[1:]}: one example's loss changes by up to "
        f"{found.largest_change:.3g} with its {found.batch_size - 1} batch-mates (mean {found.mean_change:.3g})"
        f"{changed}. A search found these; the largest possible change may be larger."
    )


def condition_sentence(condition: CheckedCondition) -> str:
    """What is best under another condition."""
    enough = ""
    if condition.calibration is not None and condition.calibration.sufficient is not None:
        enough = f" {condition.calibration.sufficient:,} of its inputs suffice for its statistics."
    deployed, chosen = condition.variants[0], next(r for r in condition.variants if r.variant is condition.chosen)
    loss = "not finite" if deployed.loss is None else format_loss(deployed.loss)
    if condition.verdict is CheckVerdict.CHANGE and chosen.loss is not None:
        best = f"better {VARIANT_SENTENCES[condition.chosen]}, {format_loss(chosen.loss)}"
    else:
        best = str(condition.verdict)
    return f"{condition.name}: loss {loss} as deployed; {best}.{enough}"


def calibration_sentence(calibration: Calibration) -> str:
    """How many unlabelled examples the statistics need."""
    losses = ", ".join(
        f"{stage.examples:,}: {'not finite' if stage.loss is None else format_loss(stage.loss)}"
        for stage in calibration.stages
    )
    enough = (
        "more examples may help"
        if calibration.sufficient is None
        else f"{calibration.sufficient:,} unlabelled examples suffice"
    )
    return f"Loss by the number of target examples: {losses}; {enough}."


def _gain_text(row: CheckedVariant) -> str:
    if row.difference is None:
        return f"with a loss of {format_loss(row.loss or 0.0)} where that of the deployed network is not finite"
    gain = row.difference.with_rows_swapped
    return f"by {format_loss(gain.mean)} ({format_loss(gain.low)} to {format_loss(gain.high)}, 95 %)"
