"""The built-in models. A package adds others with the same description, see `bln_search.core.model_info`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated

from pydantic import Field

from bln_search.core.model_info import ModelInfo, NormPlacement
from bln_search.core.tasks import TaskName


def _describe_recurrent_network(cell: str, *placements: NormPlacement) -> ModelInfo:
    """A recurrent network for texts or sequences of measurements."""
    return ModelInfo(
        "bln_search.models.recurrent:RecurrentNetwork",
        {"cell": cell},
        frozenset(
            {
                *("widths", "embedding", "dense", "dense_weights", "dropout", "recurrent_dropout"),
                *("normalize", "gain", "longer_sequences", "mask_padding"),
            }
        ),
        takes_token_ids=True,
        norm_placements=("layers", "cells", *placements, "cells_and_layers"),
    )


_describe_small_resnet = partial(
    ModelInfo, "bln_search.models.residual:ResNet", options=frozenset({"widths"}), is_stackable=True
)
_describe_imagenet_resnet = partial(ModelInfo, "bln_search.models.imagenet_residual:ImageNetResNet")

BUILT_IN_MODELS: Mapping[str, ModelInfo] = {
    "attentive_reader": ModelInfo(
        "bln_search.models.attentive_reader:AttentiveReader",
        options=frozenset({"widths", "embedding", "normalize", "gain"}),
        takes_token_ids=True,
        norm_placements=("cells", "cell_output"),
        data_sets=frozenset({"imdb_cloze"}),
    ),
    "draw": ModelInfo(
        "bln_search.models.draw:DRAW",
        options=frozenset({"widths", "normalize", "gain"}),
        own_options={
            "glimpses": Annotated[int, Field(ge=1, le=1_024)],
            "latent": Annotated[int, Field(ge=1, le=65_536)],
            "attention": bool,
        },
        norm_placements=("cell_output", "cells"),
        task=TaskName.DENSITY,
        data_sets=frozenset({"mnist_binarized"}),
    ),
    "gru": _describe_recurrent_network("gru"),
    "handwriting": ModelInfo(
        "bln_search.models.handwriting:Handwriting",
        options=frozenset({"widths", "gain"}),
        own_options=dict.fromkeys(("windows", "mixtures"), Annotated[int, Field(ge=1, le=1_024)]),
        takes_several_inputs=True,
        norm_placements=("cells",),
        task=TaskName.DENSITY,
        data_sets=frozenset({"mnist_pen_tracks"}),
    ),
    "lenet": ModelInfo("bln_search.models.lenet:LeNet", norms_follow_nonlinearity=True, is_stackable=True),
    "lstm": _describe_recurrent_network("lstm", "cell_output"),
    "mlp": ModelInfo(
        "bln_search.models.mlp:MLP",
        options=frozenset({"widths", "activation", "placement", "output_norm"}),
        norms_follow_nonlinearity=True,
        is_stackable=True,
    ),
    "nin": ModelInfo("bln_search.models.plain_convolutional:NIN"),
    "order_embeddings": ModelInfo(
        "bln_search.models.order_embeddings:OrderEmbeddings",
        options=frozenset({"widths", "embedding", "gain"}),
        takes_token_ids=True,
        takes_several_inputs=True,
        norm_placements=("cells",),
        task=TaskName.RETRIEVAL,
        data_sets=frozenset({"mnist_pair_captions"}),
    ),
    "resnet8": _describe_small_resnet({"blocks": 1}),
    "resnet18": _describe_imagenet_resnet({"depth": 18}),
    "resnet20": _describe_small_resnet({"blocks": 3}),
    "resnet34": _describe_imagenet_resnet({"depth": 34}),
    "resnet50": _describe_imagenet_resnet({"depth": 50}),
    "resnet56": _describe_small_resnet({"blocks": 9}),
    "rnn": _describe_recurrent_network("rnn"),
    "skip_thoughts": ModelInfo(
        "bln_search.models.skip_thoughts:SkipThoughts",
        options=frozenset({"widths", "embedding", "gain"}),
        takes_token_ids=True,
        norm_placements=("cells",),
        data_sets=frozenset({"imdb_sentences"}),
    ),
    "vgg16": ModelInfo(
        "bln_search.models.plain_convolutional:VGG16", options=frozenset({"dense_norms"}), is_stackable=True
    ),
}
"""The built-in models by name."""
