"""What stands in an export's configuration.json: everything that loading it needs, and where it comes from."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from bln_search.core.configuration import Method
from bln_search.core.enums import PopulationEstimate, Semantics
from bln_search.specs.arm import ConfigurationWord
from bln_search.specs.data import Standardization

FORMAT = 1
"""Version of the folder's layout; raised when an older bln-search could not read it."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelDescription(_Part):
    """The network: its name, its options, the shape of one example, how many classes, and what they are called."""

    name: str
    options: dict[str, Any]
    input_shape: tuple[int, ...]
    classes: int = Field(ge=1)
    class_names: tuple[str, ...] | None


class NormalizationDescription(_Part):
    """What its normalization layers are made with. batch_size: the training mini-batch size m."""

    method: Method
    semantics: Semantics
    epsilon: float
    batch_size: int
    options: dict[str, Any]
    correction: str
    per_slot: bool


class RowDescription(_Part):
    """The row of the ranked table.

    deterministic: is the answer to an example independent of the other examples of its mini-batch?
    largest_batch_size: of mini-batches it is defined for, None without a bound.
    """

    configuration: ConfigurationWord
    estimate: PopulationEstimate | None
    batch_size: int
    deterministic: bool
    largest_batch_size: int | None


class Figure(_Part):
    """Loss (nats) and accuracy (fraction) on a split; deviations over seeds, None for one seed."""

    loss: float
    accuracy: float
    loss_deviation: float | None = None
    accuracy_deviation: float | None = None


class Figures(_Part):
    """By split: over `seeds` seeds, and of the seed that was exported."""

    seeds: int
    over_seeds: dict[str, Figure]
    this_seed: dict[str, Figure]


class Origin(_Part):
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


class Description(_Part):
    """The whole. folded: do the programs hold affine steps for normalization layers? files: SHA-256 of each."""

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
