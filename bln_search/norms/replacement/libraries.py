"""Replacements of normalization layers of torch and other libraries, by the path of the class.

No library is imported: a network that has such a layer has imported it. Each function keeps the formula of the class.
timm's `fast norm` option, which computes in half precision under autocast, is not kept.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from bln_search.norms.replacement.factory import NormFactory, ReplaceFunction
from bln_search.norms.replacement.wrappers import NodeNorm, NormWithActivation


def replace_batch_norm(layer: nn.Module, factory: NormFactory) -> nn.Module:
    """Replace batch normalization over all axes but axis 1."""
    return factory.batch_norm(layer)


def replace_batch_norm_act(layer: nn.Module, factory: NormFactory) -> nn.Module:
    """Replace batch normalization, then dropout and activation where the layer has them."""
    return NormWithActivation(factory.batch_norm(layer), getattr(layer, "drop", None), getattr(layer, "act", None))


def replace_layer_norm(layer: nn.Module, factory: NormFactory) -> nn.Module:
    """Replace layer normalization over the last axes."""
    return factory.layer_norm(layer)


def replace_layer_norm_act(layer: nn.Module, factory: NormFactory) -> nn.Module:
    """Replace layer normalization over the last axes, then dropout and activation."""
    return NormWithActivation(factory.layer_norm(layer), layer.drop, layer.act)  # type: ignore[arg-type]


def replace_layer_norm_2d(layer: nn.Module, factory: NormFactory) -> nn.Module:
    """Replace layer normalization over axis 1 of (N, C, H, W)."""
    return factory.layer_norm(layer, feature_axis=1)


def replace_layer_norm_act_2d(layer: nn.Module, factory: NormFactory) -> nn.Module:
    """Replace layer normalization over axis 1 of (N, C, H, W), then dropout and activation."""
    return NormWithActivation(factory.layer_norm(layer, feature_axis=1), layer.drop, layer.act)  # type: ignore[arg-type]


def replace_layer_norm_by_data_format(layer: nn.Module, factory: NormFactory) -> nn.Module:
    """Replace layer normalization over axis 1 or the last one, as `data_format` of the layer says."""
    return factory.layer_norm(layer, feature_axis=1 if layer.data_format == "channels_first" else -1)


def replace_group_norm(layer: nn.Module, factory: NormFactory) -> nn.Module | str:
    """Replace group normalization with one group, which is layer normalization over channels and positions."""
    return factory.group_norm(layer)


def replace_instance_norm(layer: nn.Module, factory: NormFactory) -> nn.Module | str:
    """Replace instance normalization with running statistics; without them there is no source to choose."""
    return factory.instance_norm(layer)


def replace_graph_batch_norm(layer: nn.Module, factory: NormFactory) -> nn.Module:
    """Replace batch normalization over the nodes of a mini-batch of graphs, which holds a layer of torch.

    With `allow_single_element` the old layer uses its running statistics for a single node in training mode; the new
    layer uses the statistics of the mini-batch.
    """
    return factory.batch_norm(layer.module)  # type: ignore[arg-type]


def replace_node_norm(layer: nn.Module, factory: NormFactory) -> nn.Module | str:
    """Replace layer normalization of each node over its channels; that of whole graphs stays."""
    if layer.mode != "node":
        return GRAPH_STATISTICS
    norm = factory.make(
        "ln",
        layer.in_channels,  # type: ignore[arg-type]
        epsilon=layer.eps,  # type: ignore[arg-type]
        weight=layer.weight,  # type: ignore[arg-type]
        bias=layer.bias,  # type: ignore[arg-type]
        feature_axis=-1,
    )
    return NodeNorm(norm)


GRAPH_STATISTICS = "its statistics are those of the nodes of each graph, which no layer of bln_search computes"
KEPT: Mapping[str, str] = {
    "torch_geometric.nn.norm.instance_norm.InstanceNorm": GRAPH_STATISTICS,
    "torch_geometric.nn.norm.graph_norm.GraphNorm": GRAPH_STATISTICS,
    "torch_geometric.nn.norm.pair_norm.PairNorm": GRAPH_STATISTICS,
    "torch_geometric.nn.norm.mean_subtraction_norm.MeanSubtractionNorm": "it does not divide by a deviation",
    "torch_geometric.nn.norm.graph_size_norm.GraphSizeNorm": "it divides by the size of the graph, not by a deviation",
    "torch_geometric.nn.norm.msg_norm.MessageNorm": "it divides by norms of vectors and has no population values",
    "torch_geometric.nn.norm.batch_norm.HeteroBatchNorm": "it has separate statistics for each type of node",
    "torch_geometric.nn.norm.layer_norm.HeteroLayerNorm": "it has separate parameters for each type of node",
}
"""Why layers of libraries stay, by the path of the class."""

BUILT_IN: Mapping[str, ReplaceFunction] = {
    "torch.nn.BatchNorm1d": replace_batch_norm,
    "torch.nn.BatchNorm2d": replace_batch_norm,
    "torch.nn.BatchNorm3d": replace_batch_norm,
    "torch.nn.SyncBatchNorm": replace_batch_norm,
    "torch.nn.LayerNorm": replace_layer_norm,
    "torch.nn.GroupNorm": replace_group_norm,
    "torch.nn.InstanceNorm1d": replace_instance_norm,
    "torch.nn.InstanceNorm2d": replace_instance_norm,
    "torch.nn.InstanceNorm3d": replace_instance_norm,
    "torch_geometric.nn.norm.batch_norm.BatchNorm": replace_graph_batch_norm,
    "torch_geometric.nn.norm.layer_norm.LayerNorm": replace_node_norm,
    "torchvision.models.convnext.LayerNorm2d": replace_layer_norm_2d,
    "timm.layers.norm.LayerNorm": replace_layer_norm,
    "timm.layers.norm.LayerNormFp32": replace_layer_norm,
    "timm.layers.norm.LayerNorm2d": replace_layer_norm_2d,
    "timm.layers.norm.LayerNorm2dFp32": replace_layer_norm_2d,
    "timm.layers.norm.LayerNormExp2d": replace_layer_norm_2d,
    "timm.layers.norm_act.BatchNormAct2d": replace_batch_norm_act,
    "timm.layers.norm_act.SyncBatchNormAct": replace_batch_norm_act,
    "timm.layers.norm_act.LayerNormAct": replace_layer_norm_act,
    "timm.layers.norm_act.LayerNormActFp32": replace_layer_norm_act,
    "timm.layers.norm_act.LayerNormAct2d": replace_layer_norm_act_2d,
    "timm.layers.norm_act.LayerNormAct2dFp32": replace_layer_norm_act_2d,
    "transformers.models.convnext.modeling_convnext.ConvNextLayerNorm": replace_layer_norm_by_data_format,
    "transformers.models.convnextv2.modeling_convnextv2.ConvNextV2LayerNorm": replace_layer_norm_by_data_format,
    "transformers.models.dinov3_convnext.modeling_dinov3_convnext.DINOv3ConvNextLayerNorm": (
        replace_layer_norm_by_data_format
    ),
}
