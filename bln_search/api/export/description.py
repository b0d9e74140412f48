"""The schema of an export's configuration.json: what loading needs, and the origin of the network.

The format says whose network it is: 1, that of a study, which `load` builds; 2, a user's own network; 3, that of a
study under a row with blended statistics; 4 and 5, that of a study and a user's own network with options of BN, LN
and BLN that earlier versions did not have; 6, that of a study with another task than classification; 7 and 8, that of a
study and a user's own network with moving statistics.
"""

from __future__ import annotations

import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, field_validator, model_serializer

from bln_search.core.blend import parse_estimate_label
from bln_search.core.enums import AffineSharing, NormalizedAxes, PopulationEstimate, Semantics
from bln_search.core.loss_description import CROSS_ENTROPY
from bln_search.core.method import Method
from bln_search.core.tasks import TaskName
from bln_search.core.version import VERSION
from bln_search.specs.sections.configuration_code import ConfigurationCode
from bln_search.specs.sections.data import Standardization

STUDY_FORMAT, NETWORK_FORMAT, BLEND_FORMAT, STUDY_OPTIONS_FORMAT, NETWORK_OPTIONS_FORMAT, TASK_FORMAT = 1, 2, 3, 4, 5, 6
STUDY_STREAM_FORMAT, NETWORK_STREAM_FORMAT = 7, 8
"""Formats of configuration.json; a new number is added if an older bln-search could not read it."""


def output_name_for_task(task: TaskName) -> str:
    """The name of the output of the programs of a study's network."""
    return "numbers" if task is TaskName.REGRESSION else "logits"


_PACKAGES = ("torch", "numpy", "safetensors", "onnx", "onnxruntime", "onnxscript")


def describe_export_before_writing() -> dict[str, Any]:
    """The entries of `ExportDescription` of an export without folding and files, with the versions of packages."""
    versions = {"bln_search": VERSION, "python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return {"folded": False, "not_folded_because": None, "versions": versions, "files": {}}


class _FrozenSchema(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ArchitectureDescription(_FrozenSchema):
    """The model: name, options, shape of one example, number and names of its outputs, for classes one each.

    The number is 0 for a density, whose one output has no name.
    """

    name: str
    options: dict[str, Any]
    input_shape: tuple[int, ...]
    classes: int = Field(ge=0)
    class_names: tuple[str, ...] | None


class NormalizationDescription(_FrozenSchema):
    """Options of the normalization layers.

    Attributes:
        batch_size: The training mini-batch size m.
    """

    method: Method
    semantics: Semantics
    epsilon: float
    batch_size: int
    options: dict[str, Any]
    correction: str
    per_slot: bool


class ExportedRowDescription(_FrozenSchema):
    """The exported row of the ranked table.

    Attributes:
        estimate: Label of the population estimate, with the weight of a blend: `frozen`, `frozen@0.1`.
        deterministic: The answer to an example is independent of the other examples of its mini-batch.
        largest_batch_size: Largest mini-batch for which the configuration is defined; None without a bound.
    """

    configuration: ConfigurationCode
    estimate: str | None
    batch_size: int
    deterministic: bool
    largest_batch_size: int | None

    @field_validator("estimate")
    @classmethod
    def _validate_estimate_label(cls, value: str | None) -> str | None:
        if value is not None:
            PopulationEstimate(parse_estimate_label(value)[0])
        return value


class LossAndAccuracy(_FrozenSchema):
    """Loss and accuracy (fraction) on a split; deviations over seeds, None for one seed.

    The accuracy is None for a task without.
    """

    loss: float
    accuracy: float | None
    loss_deviation: float | None = None
    accuracy_deviation: float | None = None


class ExportedRowMetrics(_FrozenSchema):
    """Figures by split: means over all seeds, and those of the exported seed."""

    seeds: int
    over_seeds: dict[str, LossAndAccuracy]
    this_seed: dict[str, LossAndAccuracy]


class ExportOrigin(_FrozenSchema):
    """The study, the trial and the checkpoint."""

    study: str
    study_digest: str
    trial: str
    arm: str
    parameters: dict[str, Any] | None
    seed: int
    epoch: int
    judged_under: str
    checkpoint_sha256: str
    data: dict[str, Any]
    trained_with: dict[str, Any]


class ExportDescription(_FrozenSchema):
    """What configuration.json says of every exported network.

    Attributes:
        format: Number of the format.
        folded: The programs have affine steps instead of normalization layers.
        not_folded_because: Why the layers are not folded; None if they are.
        versions: Versions of packages, by name.
        files: SHA-256 of each file, by file name.
        stream: Names of the moving statistics, in the order in which programs take and return their values; not written
            without any. The values before the first mini-batch are in stream.safetensors.
    """

    format: int
    folded: bool
    not_folded_because: str | None
    versions: dict[str, str]
    files: dict[str, str]
    stream: tuple[str, ...] = ()

    @model_serializer(mode="wrap")
    def _omit_what_a_format_does_not_have(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = serialize(self)
        return {name: value for name, value in values.items() if name not in self._names_to_omit()}

    def _names_to_omit(self) -> set[str]:
        return set() if self.stream else {"stream"}

    @property
    def has_program(self) -> bool:
        """Whether there is a program of torch.export or ONNX."""
        return any(name.endswith((".pt2", ".onnx")) for name in self.files)


class StudyNetworkDescription(ExportDescription):
    """The content of configuration.json for a network of a study.

    Attributes:
        task: What the network was trained for.
        loss: Name and unit of the loss.
    """

    format: Literal[1, 3, 4, 6, 7]
    task: TaskName = TaskName.CLASSIFICATION
    loss: str = CROSS_ENTROPY.text
    model: ArchitectureDescription
    normalization: NormalizationDescription
    row: ExportedRowDescription
    standardization: Standardization
    figures: ExportedRowMetrics
    origin: ExportOrigin

    def _names_to_omit(self) -> set[str]:
        of_task = set() if self.format in (TASK_FORMAT, STUDY_STREAM_FORMAT) else {"task", "loss"}
        return super()._names_to_omit() | of_task


class TensorDescription(_FrozenSchema):
    """An input or output.

    Attributes:
        dtype: As torch names it: `float32`.
        shape: Lengths of the axes; None for one that depends on the mini-batch size.
    """

    dtype: str
    shape: tuple[int | None, ...]


class NormLayerDescription(_FrozenSchema):
    """A normalization layer with its configuration.

    Attributes:
        features: d, the length of the feature axis.
        feature_axis: The axis of the features; None for that of the method.
        batch_size: The training mini-batch size m; None for that of the present mini-batch.
        blend: The weight of the population in blended statistics; None without them.
        axes: Over which LN and BLN compute the statistics of an example; not written if it is the default.
        affine: The units that share γ and β; not written if it is the default.
        unbiased: BN divides the variance of the mini-batch by n − 1; not written if it is the default.
    """

    method: Method
    semantics: Semantics
    epsilon: float
    features: int
    feature_axis: int | None
    batch_size: int | None
    configuration: ConfigurationCode
    blend: str | None
    axes: NormalizedAxes = NormalizedAxes.POSITION
    affine: AffineSharing = AffineSharing.CHANNEL
    unbiased: bool = False

    @property
    def has_options_of_newer_formats(self) -> bool:
        """Whether an option differs from its default that earlier versions do not know."""
        return (self.axes, self.affine, self.unbiased) != (NormalizedAxes.POSITION, AffineSharing.CHANNEL, False)

    @model_serializer(mode="wrap")
    def _omit_default_options(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = serialize(self)
        if not self.has_options_of_newer_formats:
            values = {name: value for name, value in values.items() if name not in ("axes", "affine", "unbiased")}
        return values


class OwnNetworkDescription(ExportDescription):
    """The content of configuration.json for a user's own network.

    Attributes:
        network: Name of its class.
        inputs: The inputs by name, in order.
        named_inputs: The forward pass takes the inputs by name.
        outputs: The outputs by name, in order.
        layers: The normalization layers by name.
        deterministic: The answer to an example is independent of the other examples of its mini-batch.
        largest_batch_size: Largest mini-batch for which the configuration is defined; None without a bound.
    """

    format: Literal[2, 5, 8]
    network: str
    inputs: dict[str, TensorDescription]
    named_inputs: bool
    outputs: dict[str, TensorDescription]
    layers: dict[str, NormLayerDescription]
    deterministic: bool
    largest_batch_size: int | None


def list_format_descriptions() -> dict[int, type[StudyNetworkDescription | OwnNetworkDescription]]:
    """The schema of each format, by its number."""
    kinds = (StudyNetworkDescription, OwnNetworkDescription)
    of_format = {number: kind for kind in kinds for number in get_args(kind.model_fields["format"].annotation)}
    return dict(sorted(of_format.items()))
