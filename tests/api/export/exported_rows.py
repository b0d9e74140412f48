"""The networks and rows that are exported."""

from __future__ import annotations

from tests.api.trained import DIGITS, enlarged
from tests.support.tiers import part

NETWORKS = {
    "mlp paper": ("{name: mlp, widths: [16]}", "{method: bln}", DIGITS),
    "resnet8 paper": ("{name: resnet8, widths: [4, 8, 8]}", "{method: bln}", DIGITS),
    "lenet reference": ("{name: lenet}", "{method: bln, semantics: reference}", enlarged()),
    "mlp reference": ("{name: mlp, widths: [16]}", "{method: bln, semantics: reference}", DIGITS),
    "rnn cells": ("{name: rnn, widths: [6], dense: 8, normalize: cells}", "{method: bln}", DIGITS),
    "lstm layers": ("{name: lstm, widths: [6], dense: 8}", "{method: bln}", DIGITS),
    "lenet ln layer": ("{name: lenet}", "{method: ln, axes: layer}", enlarged()),
    "resnet8 layer": ("{name: resnet8, widths: [4, 8, 8]}", "{method: bln, axes: layer, affine: unit}", DIGITS),
    "resnet8 mbn": ("{name: resnet8, widths: [4, 8, 8]}", "{method: mbn, memory: 5}", DIGITS),
}
FOLDED = {"TTTT", "MM--", "--TT"}
FAST = {("mlp paper", "TTTT")}
ROWS = part(
    [
        ("mlp paper", "TTTT"),
        ("mlp paper", "FFFF"),
        ("mlp reference", "FTFT"),
        ("resnet8 paper", "TTTT"),
        ("resnet8 paper", "FFFF"),
        ("lenet reference", "TTTT"),
        ("lenet reference", "FFFF"),
        ("rnn cells", "TTTT"),
        ("lstm layers", "FFFF"),
        ("lenet ln layer", "--TT"),
        ("lenet ln layer", "--FF"),
        ("resnet8 layer", "TTTT"),
        ("resnet8 layer", "FTFT"),
        ("resnet8 mbn", "MM--"),
    ],
    lambda *row: row in FAST,
)
