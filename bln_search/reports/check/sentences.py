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
    if check.deployed.loss is None and check.verdict is CheckVerdict.CANNOT_TELL:
        return "Cannot tell: the loss is not finite, whatever statistics are used. Look at the weights and the inputs."
    if check.verdict is CheckVerdict.CANNOT_TELL:
        return (
            f"Cannot tell: with {check.examples:,} examples a change may or may not be better by more than {margin}. "
            "Leave it alone until more examples decide."
        )
    chosen = check.find(check.chosen)
    assert chosen is not None
    return f"Change it: the network is better {VARIANT_SENTENCES[check.chosen]}, {_gain_text(chosen)}."


def mode_sentences(check: NetworkCheck) -> list[str]:
    """How evaluation mode compares with training mode, and in which mode the network was given."""
    sentences = []
    if check.was_in_training_mode:
        sentences.append("The network was given in training mode; it was checked in evaluation mode.")
    training, deployed = check.find(Variant.TRAINING_MODE), check.deployed
    if training is not None and training.loss is not None and deployed.loss is not None:
        difference = training.difference
        is_known = difference is not None and (difference.high < 0 or difference.low > 0)
        relation = (
            "not significantly different" if not is_known else "worse" if training.loss < deployed.loss else "better"
        )
        sentences.append(
            f"eval() is {relation}: its loss is {format_loss(deployed.loss)}, that of train() on the same examples "
            f"{format_loss(training.loss)}."
        )
    return sentences


def effect_note(finding: Finding) -> str:
    """Why a finding without effect is a note."""
    if finding.has_effect:
        return ""
    return " (its remedy was not tried)" if finding.variant is None else " (no certain effect on these data)"


def finding_lines(number: int, finding: Finding) -> list[str]:
    """A finding: its cause with the evidence, then the remedy, then code."""
    return [
        f"{number}. {finding.cause[0].upper()}{finding.cause[1:]}{effect_note(finding)}: {finding.evidence}",
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
    if condition.calibration is not None and condition.chosen is Variant.RE_ESTIMATED_ON_VALIDATION:
        enough = _sufficient_text(condition.calibration)
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
    last = calibration.stages[-1].difference
    if last is not None and last.low > 0:
        enough = " They make the network worse on the validation data: validate on data of that domain."
    else:
        enough = _sufficient_text(calibration)
    return f"Loss by the number of target examples: {losses}.{enough}"


def _sufficient_text(calibration: Calibration) -> str:
    """How many unlabelled examples suffice, where they help."""
    last = calibration.stages[-1].difference
    if last is None or not last.high < 0:
        return ""
    if calibration.sufficient is None:
        return " More unlabelled examples may help."
    return f" {calibration.sufficient:,} unlabelled examples suffice."


def _gain_text(row: CheckedVariant) -> str:
    if row.difference is None:
        return f"with a loss of {format_loss(row.loss or 0.0)} where that of the deployed network is not finite"
    gain = row.difference.with_rows_swapped
    return f"by {format_loss(gain.mean)} ({format_loss(gain.low)} to {format_loss(gain.high)}, 95 %)"
