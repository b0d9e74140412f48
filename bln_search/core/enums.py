"""Enumerations whose values are the same in study files, tables, URLs and code."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

EnumT = TypeVar("EnumT", bound=StrEnum)


def parse_enum(kind: type[EnumT], value: str, name: str) -> EnumT:
    """The member of `kind` with this value.

    Args:
        kind: The enumeration.
        value: The value of a member.
        name: Name of the argument, for the error.

    Raises:
        ValueError: There is no such member.
    """
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"there is no {name} {value!r}: choose one of {', '.join(kind)}") from None


class Semantics(StrEnum):
    """The variant of BLN: the formulas of the paper, or those of the authors' published code."""

    PAPER = "paper"
    REFERENCE = "reference"


class NormalizedAxes(StrEnum):
    """The values over which the feature statistics of an example are computed.

    Members:
        POSITION: The channels at each position of an image (BLN paper).
        LAYER: All units of the layer: channels and positions of an image (LN paper, Eq. 3).
    """

    POSITION = "position"
    LAYER = "layer"


class AffineSharing(StrEnum):
    """The units that share a gain γ and a bias β.

    Members:
        CHANNEL: All positions of a channel.
        UNIT: None: one γ and one β for each channel at each position (LN paper, Eq. 5).
    """

    CHANNEL = "channel"
    UNIT = "unit"


class PopulationEstimate(StrEnum):
    """How a population value is estimated.

    Members:
        FROZEN: Mean over the training mini-batches with the final weights (BLN paper, Algorithm 2).
        EPOCH: Mean over the mini-batches of the checkpoint's epoch, while the weights changed.
        MOVING: Exponential moving average over the training steps, as is usual for batch normalization.
        MEMORY: The memory of MBN (MBN paper, Eq. 6); configurations with M or C read it, a study cannot name it.
        LAST_STEP: The statistics of MBN's last training step; configurations with L read them, a study cannot name it.
        ANALYTIC: Computed from the weights alone (AP2 paper); configurations with A read it, a study cannot name it.
    """

    FROZEN = "frozen"
    EPOCH = "epoch"
    MOVING = "moving"
    MEMORY = "memory"
    LAST_STEP = "last_step"
    ANALYTIC = "analytic"

    @property
    def has_own_source_letter(self) -> bool:
        """Do configurations read this estimate by a letter of its own, so that no row names it?"""
        return self not in (PopulationEstimate.FROZEN, PopulationEstimate.EPOCH, PopulationEstimate.MOVING)

    @property
    def is_available_in_training(self) -> bool:
        """Do layers have this estimate during training, without a pass over the training mini-batches afterwards?"""
        return self is not PopulationEstimate.FROZEN


class MbnStatisticSource(StrEnum):
    """A reading of MBN's inference: how a statistic is computed from the memory (MBN paper, Eq. 6-8).

    Members:
        MEMORY: The memory alone, newest entry with weight 1, older ones η, η², … (letter `M`).
        LAST_STEP: The last training step's statistics: newest entry 1, older ones λ, λη, … (letter `L`).
        WITH_MINI_BATCH: The rule of training: the present mini-batch 1, memory λ, λη, … (letter `C`).
    """

    MEMORY = "memory"
    LAST_STEP = "last_step"
    WITH_MINI_BATCH = "with_mini_batch"


class Correction(StrEnum):
    """How a population deviation is computed from mini-batch deviations.

    Members:
        BESSEL: The factor m/(m-1) of BLN's Eq. 5, 19 and 21; undefined for m = 1.
        TOTAL: The law of total variance, E[σ²] + Var[μ] over the mini-batches; defined for every m.
    """

    BESSEL = "bessel"
    TOTAL = "total"


class Split(StrEnum):
    """A part of a data set."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


class StudyKind(StrEnum):
    """The origin of the networks of a study.

    Members:
        TRAINED: bln-search trains them.
        EXTERNAL: They were trained and evaluated elsewhere; only their results were submitted.
    """

    TRAINED = "trained"
    EXTERNAL = "external"


class ProbeKind(StrEnum):
    """What a probe varies.

    Members:
        SIZE: The inference mini-batch size.
        EPOCH: The epoch of the weights.
        RESHUFFLED: The batch composition, at random.
        SKEWED: The batch composition: mini-batches of one class as far as possible; in a classification only.
    """

    SIZE = "size"
    EPOCH = "epoch"
    RESHUFFLED = "reshuffled"
    SKEWED = "skewed"


class LayerScope(StrEnum):
    """Which layers share a configuration.

    Members:
        GLOBAL: All layers.
        PER_LAYER: No layers.
        GROUPS: The layers of a group.
    """

    GLOBAL = "global"
    PER_LAYER = "per_layer"
    GROUPS = "groups"


class UngroupedLayers(StrEnum):
    """How a per-layer search treats layers that no group names.

    Members:
        FREE: Each has its own configuration.
        SHARED: They share one configuration.
        AS_IS: They keep the configuration and the values that they have in the network.
    """

    FREE = "free"
    SHARED = "shared"
    AS_IS = "as_is"


class ExportFormat(StrEnum):
    """A form in which a network is exported.

    Members:
        SAFETENSORS: Weights, population values and configurations.
        TORCH_EXPORT: A program for torch.
        ONNX: A program for ONNX runtimes.
    """

    SAFETENSORS = "safetensors"
    TORCH_EXPORT = "torch_export"
    ONNX = "onnx"


class ArchiveContents(StrEnum):
    """Which forms of a network the ZIP archive of an export contains, besides its description and model card.

    Members:
        ALL: Every form.
        SAFETENSORS: Weights, population values and configurations.
        TORCH_EXPORT: A program for torch.
        ONNX: A program for ONNX runtimes.
    """

    ALL = "all"
    SAFETENSORS = ExportFormat.SAFETENSORS.value
    TORCH_EXPORT = ExportFormat.TORCH_EXPORT.value
    ONNX = ExportFormat.ONNX.value

    @property
    def export_formats(self) -> frozenset[ExportFormat]:
        """The forms."""
        return frozenset(ExportFormat) if self is ArchiveContents.ALL else frozenset({ExportFormat(self.value)})


class ExportStep(StrEnum):
    """What a worker is doing for an export, in this order.

    Members:
        DATA: It reads the data set.
        FORMS: It writes the forms of the network.
        COMPARISON: It compares their outputs with those of the network.
        ARCHIVE: It stores the archive.
    """

    DATA = "data"
    FORMS = "forms"
    COMPARISON = "comparison"
    ARCHIVE = "archive"


class LayerSearchAlgorithm(StrEnum):
    """How per-layer configurations are searched.

    Members:
        EXACT: Evaluate all configurations.
        BEAM: Beam search over the layers.
        COORDINATE: Coordinate descent over the layers.
        TPE: Optuna's tree-structured Parzen estimator.
        RACING: Evaluate many at once; drop each one that a paired test shows to be worse than the best one.
        RANDOM: Draw configurations uniformly.
    """

    EXACT = "exact"
    BEAM = "beam"
    COORDINATE = "coordinate"
    TPE = "tpe"
    RACING = "racing"
    RANDOM = "random"


class Scope(StrEnum):
    """What a token allows.

    Members:
        READ: Read the account's own studies.
        WRITE: Also change them.
        ADMIN: Everything.
    """

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    def allows(self, required: Scope) -> bool:
        """Does this scope include `required`? Each scope includes those before it."""
        order = list(Scope)
        return order.index(self) >= order.index(required)


class CheckpointRule(StrEnum):
    """Which epoch's weights become the checkpoint."""

    BEST_VALIDATION = "best_validation"
    LAST = "last"


class PopulationRefresh(StrEnum):
    """When the population values of fine-tuning are estimated again.

    Members:
        EPOCH: Before every epoch, with the present weights.
        NEVER: They stay those of the network before fine-tuning.
    """

    EPOCH = "epoch"
    NEVER = "never"
