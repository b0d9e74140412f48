"""A data set prepared for a trial: split, standardized, on the device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bln_search.core.enums import Split
from bln_search.core.errors import DataError
from bln_search.data.dataset import DataSet, Inputs
from bln_search.data.splits import split_indices
from bln_search.specs.data import DataSpec, Standardization
from bln_search.specs.sizes import batch_size_problem


@dataclass(frozen=True)
class PreparedData:
    """Inputs (standardized float32, or int64 token ids) and targets (int64) of each split, on one device.

    sha256: of the decoded data set; None where it was not computed.
    vocabulary: number of token ids; None where inputs are measurements.
    remarks: properties of the data that affect results.
    """

    splits: dict[Split, tuple[Tensor, Tensor]]
    input_shape: tuple[int, ...]
    classes: int
    sha256: str | None = None
    vocabulary: int | None = None
    remarks: tuple[str, ...] = ()

    def check_batch_size(self, batch_size: int) -> None:
        """Raise DataError unless every split holds at least one mini-batch of this size."""
        for split, (inputs, _) in self.splits.items():
            if len(inputs) < batch_size:
                raise DataError(batch_size_problem(batch_size, split, len(inputs)))


def prepare(data: DataSet, spec: DataSpec, device: torch.device | str = "cpu") -> PreparedData:
    """Split `data` by `spec`, fit the standardization on the training examples, and put all of it on `device`."""
    training, validation = split_indices(data.train_labels, spec)
    fitted = None
    if data.vocabulary is None:
        fitted = Standardizer(data.train_inputs[training], data.scale, spec.standardization)

    def tensors(inputs: Inputs, labels: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        prepared = torch.from_numpy(inputs.astype(np.int64) if fitted is None else fitted(inputs))
        return prepared.to(device), torch.from_numpy(labels.copy()).to(device)

    splits = {
        Split.TRAIN: tensors(data.train_inputs[training], data.train_labels[training]),
        Split.VALIDATION: tensors(data.train_inputs[validation], data.train_labels[validation]),
        Split.TEST: tensors(data.test_inputs, data.test_labels),
    }
    return PreparedData(splits, data.input_shape, len(data.classes), data.sha256, data.vocabulary, data.remarks)


def fit_standardization(data: DataSet, spec: DataSpec) -> Standardizer:
    """Return the standardization that `prepare` uses. Raises DataError where inputs are token ids."""
    if data.vocabulary is not None:
        raise DataError(f"{data.name} holds token ids, which are not standardized")
    training, _ = split_indices(data.train_labels, spec)
    return Standardizer(data.train_inputs[training], data.scale, spec.standardization)


class Standardizer:
    """(x − mean)/deviation, fitted in float64; an input that never varies is only centred, one left as it is scaled.

    mean, deviation: float64, of an input's number of axes, the first of length one.
    """

    def __init__(self, inputs: Inputs, scale: float, kind: Standardization) -> None:
        self.mean: NDArray[np.float64] = np.zeros((1,) * inputs.ndim)
        self.deviation: NDArray[np.float64] = np.full((1,) * inputs.ndim, scale, dtype=np.float64)
        if kind is not Standardization.NONE:
            axes = (0,) if kind is Standardization.PIXEL else (0, *range(2, inputs.ndim))
            least, most = inputs.min(axes, keepdims=True), inputs.max(axes, keepdims=True)
            constant = least == most  # their mean is rounded, and their deviation what that leaves
            deviation = inputs.std(axes, dtype=np.float64, keepdims=True)
            self.mean = np.where(constant, least, inputs.mean(axes, dtype=np.float64, keepdims=True))
            self.deviation = np.where(constant | (deviation == 0), 1.0, deviation)

    def __call__(self, inputs: Inputs) -> NDArray[np.float32]:
        """Standardized inputs, in slices so that float64 copies stay small."""
        out = np.empty(inputs.shape, np.float32)
        for start in range(0, len(inputs), 4096):
            part = slice(start, start + 4096)
            out[part] = (inputs[part] - self.mean) / self.deviation
        return out
