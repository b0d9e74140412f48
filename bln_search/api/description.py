"""The schema of an export's configuration.json: what loading needs, and the origin of the network."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from bln_search.core.configuration import Method
from bln_search.core.enums import PopulationEstimate, Semantics
from bln_search.specs.arm import ConfigurationCode
from bln_search.specs.data import Standardization

FORMAT = 1
"""Version of the export format; incremented when an older bln-search could not read it."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelDescription(_Section):
    """The model: name, options, shape of one example, number and names of the classes."""

    name: str
    options: dict[str, Any]
    input_shape: tuple[int, ...]
    classes: int = Field(ge=1)
    class_names: tuple[str, ...] | None


class NormalizationDescription(_Section):
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


class RowDescription(_Section):
    """The exported row of the ranked table.

    Attributes:
        deterministic: The answer to an example is independent of the other examples of its mini-batch.
        largest_batch_size: Largest mini-batch for which the configuration is defined; None without a bound.
    """

    configuration: ConfigurationCode
    estimate: PopulationEstimate | None
    batch_size: int
    deterministic: bool
    largest_batch_size: int | None


class Figure(_Section):
    """Loss (nats) and accuracy (fraction) on a split; deviations over seeds, None for one seed."""

    loss: float
    accuracy: float
    loss_deviation: float | None = None
    accuracy_deviation: float | None = None


class Figures(_Section):
    """Figures by split: means over all seeds, and those of the exported seed."""

    seeds: int
    over_seeds: dict[str, Figure]
    this_seed: dict[str, Figure]


class Origin(_Section):
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


class ExportDescription(_Section):
    """The content of configuration.json.

    Attributes:
        folded: The programs have affine steps instead of normalization layers.
        not_folded_because: Why the layers are not folded; None if they are.
        files: SHA-256 of each file, by file name.
    """

    format: Literal[1]
    model: ModelDescription
    normalization: NormalizationDescription
    row: RowDescription
    standardization: Standardization
    folded: bool
    not_folded_because: str | None
    figures: Figures
    origin: Origin
    versions: dict[str, str]
    files: dict[str, str]
