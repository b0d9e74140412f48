"""The model of a study and its options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from bln_search.core.method import Method
from bln_search.core.model_info import ModelInfo, NormPlacement
from bln_search.core.registry import MODELS
from bln_search.specs.own_options import SectionWithOwnOptions, find_described_options
from bln_search.specs.spec_section import Unique


class ModelSpec(SectionWithOwnOptions):
    """A model and its options.

    Attributes:
        name: A network of the table below, or the name of a model of an installed package (plugin). Such a model may
            have further keys.
        widths: Widths of the hidden layers, of the stages of a ResNet (three, none narrower than the one before), or of
            the recurrent layers.
        activation: Nonlinearity of an mlp; `sloped_relu` is max(0, x) + 0.03·x; by default `tanh`.
        placement: Position of an mlp's normalization layers: `after` the nonlinearity or `before` it; by default
            `after`.
        output_norm: Methods whose arms also normalize the logits of an mlp; by default none.
        embedding: Embedding dimension of a recurrent network; by default 512.
        dense: Units of the dense layer after the recurrent layers; by default 32.
        dense_weights: Initialization of the dense layers of a recurrent network; by default `glorot`.
        dropout: Dropout rate of the inputs of recurrent layers; by default 0.2.
        recurrent_dropout: Dropout rate of the hidden states of recurrent layers; by default 0.2.
        normalize: Normalization after the recurrent `layers` and the dense one; inside the recurrent `cells` at every
            time step; of the `cell_output` of an lstm only, at every time step; or `cells_and_layers`; by default
            `layers`.
        gain: Initial value of γ inside cells; by default 1.
        longer_sequences: Time steps after those of the training data, inside cells with statistics of each time step:
            `refuse` them, or use the population values of the `last_time_step`; by default `refuse`.
        mask_padding: Skip the padding of texts inside cells: the state stays as it is, and statistics are of the other
            examples of the mini-batch; by default `false`.
        dense_norms: Normalization of the two hidden dense layers of a vgg16, which the MBN paper's network lacks; by
            default true.
    """

    kind: ClassVar[str] = "model"
    added_later = frozenset(
        {
            *("activation", "placement", "output_norm", "embedding", "dense", "dense_weights", "dropout"),
            *("recurrent_dropout", "normalize", "gain", "longer_sequences", "mask_padding", "dense_norms"),
        }
    )

    name: str = Field(min_length=1, max_length=64)
    widths: tuple[Annotated[int, Field(ge=1, le=65_536)], ...] | None = Field(default=None, min_length=1, max_length=32)
    activation: Literal["tanh", "relu", "logistic", "sloped_relu"] | None = None
    placement: Literal["after", "before"] | None = None
    output_norm: Annotated[tuple[Method, ...] | None, Unique] = Field(default=None, min_length=1)
    embedding: Annotated[int, Field(ge=1, le=65_536)] | None = None
    dense: Annotated[int, Field(ge=1, le=65_536)] | None = None
    dense_weights: Literal["glorot", "orthogonal"] | None = None
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = None
    recurrent_dropout: Annotated[float, Field(ge=0, lt=1)] | None = None
    normalize: NormPlacement | None = None
    gain: Annotated[float, Field(gt=0, le=1_000)] | None = None
    longer_sequences: Literal["refuse", "last_time_step"] | None = None
    mask_padding: bool | None = None
    dense_norms: bool | None = None

    @classmethod
    def find_own_options(cls, name: str) -> Mapping[str, Any] | None:
        """The type of each option that the model alone has; None for a model that is not known here."""
        return find_described_options(MODELS, name)

    @classmethod
    def list_known_keys(cls, name: object) -> list[str]:
        """Name and options of the model; the options of all built-in models where its own are not known."""
        info = MODELS.find_info(name) if isinstance(name, str) else None
        return list(cls.model_fields) if info is None else ["name", *sorted(info.all_options)]

    @model_validator(mode="after")
    def _check_recurrent_cell_options(self) -> ModelSpec:
        if self.has_unknown_options:  # a study that is stored here may have a model whose package is elsewhere
            return self
        for name in ("gain", "longer_sequences"):
            if getattr(self, name) is not None and not self.normalizes_inside_recurrent_cells:
                raise ValueError(
                    f"{name} belongs to the normalization inside recurrent cells: it needs normalize: cells, "
                    "cell_output or cells_and_layers"
                )
        if self.mask_padding and self.normalize not in ("cells", "cell_output"):
            raise ValueError("mask_padding needs normalization inside cells alone: set normalize: cells or cell_output")
        if self.info.has_norms_in_cells_only and self.normalize in ("layers", "cells_and_layers"):
            raise ValueError(
                f"{self.name} has no layers for normalize: {self.normalize}: set normalize to cells or cell_output"
            )
        placements = self.info.norm_placements
        if self.normalize == "cell_output" and "layers" in placements and "cell_output" not in placements:
            raise ValueError(f"only an lstm has an output of its cell, not {self.name}: set normalize: cells")
        return self

    @property
    def info(self) -> ModelInfo:
        """The description of the model; the defaults where it is not known."""
        return MODELS.find_info(self.name) or ModelInfo(factory="")

    @property
    def keys(self) -> list[str]:
        """Name and options that a model may have, and those that this one has."""
        return [*type(self).model_fields, *self.info.own_options]

    @property
    def has_unknown_options(self) -> bool:
        """Whether it is not known which keys the model takes, because it is not known here."""
        return type(self).find_own_options(self.name) is None

    @property
    def normalizes_inside_recurrent_cells(self) -> bool:
        """Whether there is normalization inside recurrent cells, at every time step."""
        return self.info.has_norms_in_cells_only or self.normalize not in (None, "layers")

    @property
    def normalizes_products_in_cells(self) -> bool:
        """Whether there is normalization directly behind the weights of recurrent cells."""
        return (self.normalize or self.info.default_norm_placement) == "cells"

    @property
    def largest_specified_width(self) -> int:
        """Units of the widest layer that the study specifies; 0 if it specifies none."""
        return max([*(self.widths or ()), self.embedding or 0, self.dense or 0])
