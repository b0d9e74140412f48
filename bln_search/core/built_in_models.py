"""The built-in models. A package adds others with the same description, see `bln_search.core.model_info`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from bln_search.core.model_info import ModelInfo, NormPlacement


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
    "gru": _describe_recurrent_network("gru"),
    "lenet": ModelInfo("bln_search.models.lenet:LeNet", norms_follow_nonlinearity=True, is_stackable=True),
    "lstm": _describe_recurrent_network("lstm", "cell_output"),
    "mlp": ModelInfo(
        "bln_search.models.mlp:MLP",
        options=frozenset({"widths", "activation", "placement", "output_norm"}),
        norms_follow_nonlinearity=True,
        is_stackable=True,
    ),
    "nin": ModelInfo("bln_search.models.plain_convolutional:NIN"),
    "resnet8": _describe_small_resnet({"blocks": 1}),
    "resnet18": _describe_imagenet_resnet({"depth": 18}),
    "resnet20": _describe_small_resnet({"blocks": 3}),
    "resnet34": _describe_imagenet_resnet({"depth": 34}),
    "resnet50": _describe_imagenet_resnet({"depth": 50}),
    "resnet56": _describe_small_resnet({"blocks": 9}),
    "rnn": _describe_recurrent_network("rnn"),
    "vgg16": ModelInfo(
        "bln_search.models.plain_convolutional:VGG16", options=frozenset({"dense_norms"}), is_stackable=True
    ),
}
"""The built-in models by name."""
