"""The programs of an export, as somebody without bln-search runs them."""

from __future__ import annotations

import onnxruntime
import torch


def forms_of(target):
    """The torch.export program and the ONNX model of a folder."""
    program = torch.export.load(target / "model.pt2").module()
    session = onnxruntime.InferenceSession(target / "model.onnx", providers=["CPUExecutionProvider"])
    return program, lambda x: torch.from_numpy(session.run(None, {"inputs": x.numpy()})[0])
