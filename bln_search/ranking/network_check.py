"""Results of a check of a trained network: its variants, findings with causes, and a verdict.

A variant is the network with one change: other statistics, another ε, all modules in evaluation mode. Every variant is
compared with the deployed network over the same examples: a remedy is tried, not assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from bln_search.ranking.analysis_part import StoredAnalysisModel
from bln_search.ranking.comparison import MeanDifference


class Variant(StrEnum):
    """The network with one change.

    Members:
        DEPLOYED: The network as it is used: its stored statistics, modules in the modes in which it was given.
        TRAINING_MODE: All modules in training mode, as `model.train()` sets them.
        MINI_BATCH: Statistics of each mini-batch, all other modules as deployed.
        RE_ESTIMATED: Stored statistics estimated again from the training data, with the present weights.
        RE_ESTIMATED_ON_VALIDATION: The same from the inputs of the validation data, without their targets.
        RE_ESTIMATED_ON_TARGET: The same from unlabelled inputs of the domain where the network is used.
        EVALUATION_MODE: All modules in evaluation mode.
        DEFAULT_EPSILON: The default ε of each layer's class.
        EXCHANGED_STATISTICS: Layers with each other's statistics.
        RESCALED_INPUTS: Inputs with the mean and deviation of the training inputs in each channel.
    """

    DEPLOYED = "deployed"
    TRAINING_MODE = "training mode"
    MINI_BATCH = "mini-batch statistics"
    RE_ESTIMATED = "re-estimated statistics"
    RE_ESTIMATED_ON_VALIDATION = "statistics of the validation inputs"
    RE_ESTIMATED_ON_TARGET = "statistics of the target inputs"
    EVALUATION_MODE = "evaluation mode"
    DEFAULT_EPSILON = "default epsilon"
    EXCHANGED_STATISTICS = "exchanged statistics"
    RESCALED_INPUTS = "rescaled inputs"


CANDIDATES = (
    Variant.EVALUATION_MODE,
    Variant.DEFAULT_EPSILON,
    Variant.EXCHANGED_STATISTICS,
    Variant.RESCALED_INPUTS,
    Variant.RE_ESTIMATED,
    Variant.RE_ESTIMATED_ON_TARGET,
    Variant.RE_ESTIMATED_ON_VALIDATION,
    Variant.MINI_BATCH,
)
"""Variants that may be deployed, from the first to the last choice among equally good ones."""


class Cause(StrEnum):
    """Why the deployed network may be worse than it could be, from the most specific cause to the most general one."""

    NO_BETTER_THAN_CHANCE = "no better than chance"
    NOT_FINITE = "statistics that are not finite"
    LAYERS_IN_TRAINING_MODE = "normalization layers in training mode"
    FROZEN_LAYERS_IN_TRAINING_MODE = "frozen normalization layers in training mode"
    RANDOMNESS = "dropout or other randomness"
    COPIES_DIFFER = "copies with other statistics"
    EXCHANGED_STATISTICS = "statistics of another layer"
    CHANGED_EPSILON = "another epsilon"
    OTHER_PREPROCESSING = "other preprocessing"
    OTHER_DOMAIN = "data of another domain"
    MOMENTUM_ZERO = "momentum 0"
    MOMENTUM_ONE = "momentum 1"
    FEW_UPDATES = "few updates of the statistics"
    STALE_STATISTICS = "statistics of other weights"
    SMALL_TRAINING_BATCHES = "small training mini-batches"
    MINI_BATCH_IS_BETTER = "mini-batch statistics fit better"
    BATCH_DEPENDENCE = "outputs that depend on the mini-batch"
    STATE_BETWEEN_BATCHES = "state between mini-batches"
    CONSTANT_CHANNELS = "channels without variance"
    UNUSED_LAYERS = "layers that are not used"


class CheckVerdict(StrEnum):
    """What to do with the network (95 %).

    Members:
        KEEP: No variant is better than the deployed network by more than the margin: leave it alone.
        CHANGE: A variant is better by more than the margin.
        CANNOT_TELL: Neither is certain.
    """

    KEEP = "leave it alone"
    CHANGE = "change it"
    CANNOT_TELL = "cannot tell"


class CheckedVariant(StoredAnalysisModel):
    """Mean loss of a variant at one mini-batch size, beside the deployed network.

    Attributes:
        variant: The variant.
        batch_size: Inference mini-batch size.
        loss: Mean loss; NaN or inf are None.
        accuracy: Fraction of correct predictions; None for a score without correctness.
        difference: Loss of the variant minus that of the deployed network, with a simultaneous interval and corrected
            p value over all candidates; None for the deployed network, and where a loss is not finite.
        is_candidate: Whether the network can be deployed like this, so that the verdict considers it.
    """

    variant: Variant
    batch_size: int
    loss: float | None
    accuracy: float | None
    difference: MeanDifference | None
    is_candidate: bool

    def is_better(self, margin: float = 0.0) -> bool:
        """Whether it is significantly better than the deployed network by more than a margin."""
        return self.difference is not None and self.difference.high < -margin


class Finding(StoredAnalysisModel):
    """A cause, with evidence and remedy.

    Attributes:
        cause: The cause.
        evidence: What was measured, a sentence.
        remedy: What to do, a sentence.
        code: Python lines that do so; empty without any.
        layers: Names of the layers, of which the sentences may name the first ones only.
        variant: The variant with the remedy; None where none was tried.
        recovered: Loss of the deployed network minus loss with the remedy; None without a variant, and where the
            deployed loss is not finite.
        has_effect: Whether the remedy helps significantly, by more than the margin. Otherwise the finding is a note:
            its remedy changed little, or was not tried.
    """

    cause: Cause
    evidence: str
    remedy: str
    code: str = ""
    layers: tuple[str, ...] = ()
    variant: Variant | None = None
    recovered: MeanDifference | None = None
    has_effect: bool = False


class BatchDependence(StoredAnalysisModel):
    """How much the output for an example changes with its batch-mates, as far as a search found.

    Attributes:
        variant: The variant.
        batch_size: Mini-batch size.
        examples: Number of examples whose batch-mates were searched.
        batches: Number of mini-batches that were tried for each example.
        mean_change: Mean over examples of the largest change of the loss.
        largest_change: The largest change of the loss of an example.
        changed_predictions: Fraction of the examples whose prediction changed; None for outputs that are no classes.
    """

    variant: Variant
    batch_size: int
    examples: int
    batches: int
    mean_change: float
    largest_change: float
    changed_predictions: float | None


class CalibrationStage(StoredAnalysisModel):
    """Statistics estimated from the first mini-batches of a loader.

    Attributes:
        examples: Number of examples.
        loss: Mean validation loss with these statistics; None where it is not finite.
        difference: That loss minus the loss as deployed; None where one is not finite.
    """

    examples: int
    loss: float | None
    difference: MeanDifference | None


class Calibration(StoredAnalysisModel):
    """Loss against the number of examples from which statistics were estimated.

    Attributes:
        stages: After 1, 2, 4, … mini-batches and all of them.
        sufficient: First number of examples after which no later stage differs by the margin or more (95 %); None
            without one.
    """

    stages: tuple[CalibrationStage, ...]
    sufficient: int | None


class CheckedCondition(StoredAnalysisModel):
    """The network under another condition, as of other inputs with the same targets.

    Attributes:
        name: Name of the condition.
        examples: Number of examples.
        verdict: What to do if the network is used under this condition alone.
        chosen: The variant to deploy then.
        variants: The measured variants, the deployed one first.
        calibration: How many unlabelled inputs of the condition suffice for its statistics; None if unmeasured.
    """

    name: str
    examples: int
    verdict: CheckVerdict
    chosen: Variant
    variants: tuple[CheckedVariant, ...]
    calibration: Calibration | None


class NetworkCheck(StoredAnalysisModel):
    """A finished check.

    Attributes:
        network: Class of the network.
        parameters: Number of parameters.
        layers: Number of layers with statistics, by class.
        verdict: What to do.
        chosen: The variant to deploy: the deployed one unless the verdict is to change it.
        variants: The measured variants, the deployed one first.
        findings: Causes, the most probable one first; those without effect come last.
        dependence: How outputs depend on batch-mates, for variants where they do.
        conditions: The network under other conditions.
        calibration: How many inputs of the target domain suffice for its statistics; None without target data.
        margin: Difference of mean losses up to which variants are practically equal.
        loss_name: What the loss is.
        loss_unit: Its unit; empty without one.
        examples: Number of validation examples.
        training_examples: Number of training examples from which statistics were estimated; 0 without training data,
            and where it is unknown.
        training_batch_size: Their mini-batch size; 0 where it is unknown.
        data_digest: SHA-256 of the validation inputs and targets.
        versions: Versions of Python, torch and bln-search.
        device: Device of the network.
        was_in_training_mode: Whether the network was given in training mode, and checked in evaluation mode.
        seconds: Duration.
    """

    network: str
    parameters: int
    layers: dict[str, int]
    verdict: CheckVerdict
    chosen: Variant
    variants: tuple[CheckedVariant, ...]
    findings: tuple[Finding, ...]
    dependence: tuple[BatchDependence, ...] = ()
    conditions: tuple[CheckedCondition, ...] = ()
    calibration: Calibration | None = None
    margin: float
    loss_name: str
    loss_unit: str
    examples: int
    training_examples: int
    training_batch_size: int
    data_digest: str
    versions: dict[str, str]
    device: str
    was_in_training_mode: bool = False
    seconds: float

    @property
    def deployed(self) -> CheckedVariant:
        """The deployed network at the mini-batch size of the comparison."""
        return self.variants[0]

    @property
    def cause(self) -> Cause | None:
        """The most probable cause that has an effect; None without one."""
        return next((finding.cause for finding in self.findings if finding.has_effect), None)

    def find(self, variant: Variant, batch_size: int | None = None) -> CheckedVariant | None:
        """A variant at a mini-batch size, by default that of the comparison; None where it was not measured."""
        size = self.deployed.batch_size if batch_size is None else batch_size
        of_size = (row for row in self.variants if row.variant is variant and row.batch_size == size)
        return next(of_size, None)


def decide(rows: Sequence[CheckedVariant], margin: float) -> tuple[CheckVerdict, Variant]:
    """The verdict, and the variant to deploy.

    Of the variants that are significantly better by more than the margin, the first one of `CANDIDATES` is chosen whose
    mean loss is above the lowest one by no more than the margin.

    Args:
        rows: The measured variants, the deployed one first.
        margin: Difference of mean losses up to which variants are practically equal.
    """
    deployed = rows[0]
    finite = [(row, row.loss) for row in rows if row.is_candidate and row.loss is not None]
    better = [(row, loss) for row, loss in finite if deployed.loss is None or row.is_better(margin)]
    if better:
        lowest = min(loss for _, loss in better)
        near = [row.variant for row, loss in better if loss <= lowest + margin]
        return CheckVerdict.CHANGE, min(near, key=CANDIDATES.index)
    if deployed.loss is None:
        return CheckVerdict.CANNOT_TELL, Variant.DEPLOYED
    is_certain = all(row.difference is not None and row.difference.low >= -margin for row, _ in finite)
    return (CheckVerdict.KEEP if is_certain else CheckVerdict.CANNOT_TELL), Variant.DEPLOYED
