"""The model of a study and its options."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from bln_search.core.configuration import Method
from bln_search.specs.base import Spec, require_unique


class ModelSpec(Spec):
    """A model and its options.

    Attributes:
        name: A network of the table below, or the name of a custom model (plugin).
        widths: Widths of the hidden layers, of the stages of a ResNet (three, none narrower than the one before), or of
            the recurrent layers.
        activation: Nonlinearity of an mlp; by default `tanh`.
        placement: Position of an mlp's normalization layers: `after` the nonlinearity or `before` it; by default
            `after`.
        output_norm: Methods whose arms also normalize the logits of an mlp; by default none.
        embedding: Embedding dimension of a recurrent network; by default 512.
        dense: Units of the dense layer after the recurrent layers; by default 32.
        dense_weights: Initialization of the dense layers of a recurrent network; by default `glorot`.
        dropout: Dropout rate of the inputs of recurrent layers; by default 0.2.
        recurrent_dropout: Dropout rate of the hidden states of recurrent layers; by default 0.2.
        normalize: Normalization after the recurrent `layers` and the dense one, or inside the recurrent `cells` at
            every time step; by default `layers`.
        gain: Initial value of γ inside cells; by default 1.
        dense_norms: Normalization of the two hidden dense layers of a vgg16, which the MBN paper's network lacks; by
            default true.
    """

    added_later = frozenset(
        {
            "activation",
            "placement",
            "output_norm",
            "embedding",
            "dense",
            "dense_weights",
            "dropout",
            "recurrent_dropout",
            "normalize",
            "gain",
            "dense_norms",
        }
    )
    takes_booleans = frozenset({"dense_norms"})

    name: str = Field(min_length=1, max_length=64)
    widths: tuple[Annotated[int, Field(ge=1, le=65_536)], ...] | None = Field(default=None, min_length=1, max_length=32)
    activation: Literal["tanh", "relu"] | None = None
    placement: Literal["after", "before"] | None = None
    output_norm: tuple[Method, ...] | None = Field(default=None, min_length=1)
    embedding: Annotated[int, Field(ge=1, le=65_536)] | None = None
    dense: Annotated[int, Field(ge=1, le=65_536)] | None = None
    dense_weights: Literal["glorot", "orthogonal"] | None = None
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = None
    recurrent_dropout: Annotated[float, Field(ge=0, lt=1)] | None = None
    normalize: Literal["layers", "cells"] | None = None
    gain: Annotated[float, Field(gt=0, le=1_000)] | None = None
    dense_norms: bool | None = None

    @field_validator("output_norm")
    @classmethod
    def _check_output_norm(cls, value: tuple[Method, ...] | None) -> tuple[Method, ...] | None:
        return None if value is None else require_unique(value, "output_norm")

    @model_validator(mode="after")
    def _check_gain(self) -> ModelSpec:
        if self.gain is not None and self.normalize != "cells":
            raise ValueError("gain belongs to the normalization inside recurrent cells: it needs normalize: cells")
        return self

    @property
    def largest_width(self) -> int:
        """Units of the widest layer that the study specifies; 0 if it specifies none."""
        return max([*(self.widths or ()), self.embedding or 0, self.dense or 0])
