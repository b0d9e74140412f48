"""Layers with class paths, attributes and formulas of those of timm, torchvision and transformers."""

from __future__ import annotations

from torch import nn
from torch.nn import functional as F


def of_library(path):
    """Give a class the path of a class of a library."""

    def rename(kind):
        kind.__module__, _, kind.__qualname__ = path.rpartition(".")
        return kind

    return rename


def drop_and_act(layer, act):
    layer.drop, layer.act = nn.Dropout(0.5), nn.ReLU(inplace=True) if act else nn.Identity()
    return layer


@of_library("timm.layers.norm_act.BatchNormAct2d")
class BatchNormAct2d(nn.BatchNorm2d):
    def forward(self, x):
        uses_running = not self.training and self.running_mean is not None
        mean, variance = self.running_mean, self.running_var
        x = F.batch_norm(x, mean, variance, self.weight, self.bias, not uses_running, self.momentum, self.eps)
        return self.act(self.drop(x))


@of_library("timm.layers.norm_act.SyncBatchNormAct")
class SyncBatchNormAct(nn.SyncBatchNorm):
    def forward(self, x):
        x = super().forward(x)
        x = self.drop(x) if hasattr(self, "drop") else x
        return self.act(x) if hasattr(self, "act") else x


class _LayerNorm(nn.LayerNorm):
    def normalize(self, x):
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def normalize_channels(self, x):
        return self.normalize(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


@of_library("timm.layers.norm.LayerNorm")
class LayerNorm(_LayerNorm):
    def forward(self, x):
        return self.normalize(x)


@of_library("timm.layers.norm.LayerNorm2d")
class LayerNorm2d(_LayerNorm):
    def forward(self, x):
        return self.normalize_channels(x)


@of_library("timm.models.metaformer.LayerNorm2dNoBias")
class LayerNorm2dNoBias(LayerNorm2d):
    def __init__(self, features, **options):
        super().__init__(features, **options)
        self.bias = None


@of_library("timm.layers.norm_act.LayerNormAct")
class LayerNormAct(_LayerNorm):
    def forward(self, x):
        return self.act(self.drop(self.normalize(x)))


@of_library("timm.layers.norm_act.LayerNormAct2d")
class LayerNormAct2d(_LayerNorm):
    def forward(self, x):
        return self.act(self.drop(self.normalize_channels(x)))


@of_library("torchvision.models.convnext.LayerNorm2d")
class TorchvisionLayerNorm2d(_LayerNorm):
    def forward(self, x):
        return self.normalize_channels(x)


@of_library("transformers.models.convnext.modeling_convnext.ConvNextLayerNorm")
class ConvNextLayerNorm(_LayerNorm):
    def __init__(self, features, data_format):
        super().__init__(features, eps=1e-6)
        self.data_format = data_format

    def forward(self, x):
        return self.normalize_channels(x) if self.data_format == "channels_first" else self.normalize(x)
