"""Products are computed in full single precision, and all settings of the process are restored."""

from __future__ import annotations

import pytest
import torch

from bln_search.norms.precision import use_full_float32_precision

SETTINGS = (
    torch.backends.cuda.matmul,
    torch.backends.cudnn.conv,
    torch.backends.cudnn.rnn,
    torch.backends.mkldnn.matmul,
    torch.backends.mkldnn.conv,
    torch.backends.mkldnn.rnn,
)


def precision_settings():
    return [setting.fp32_precision for setting in SETTINGS]


def legacy_flags():
    return torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32, torch.get_float32_matmul_precision()


@pytest.fixture(autouse=True)
def restored_settings():
    saved, matmul_precision = precision_settings(), torch.get_float32_matmul_precision()
    yield
    torch.backends.fp32_precision = "none"
    torch.backends.cudnn.fp32_precision = "none"
    torch.set_float32_matmul_precision(matmul_precision)
    torch.backends.cudnn.allow_tf32 = True
    for setting, value in zip(SETTINGS, saved, strict=True):
        setting.fp32_precision = value


USER_CHANGES = {
    "nothing": lambda: None,
    "products, older flag": lambda: torch.set_float32_matmul_precision("high"),
    "products, newer setting": lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
    "convolutions, newer setting": lambda: setattr(torch.backends.cudnn.conv, "fp32_precision", "ieee"),
    "everything": lambda: setattr(torch.backends, "fp32_precision", "tf32"),
    "cuDNN": lambda: setattr(torch.backends.cudnn, "fp32_precision", "tf32"),
    "products on CPU": lambda: setattr(torch.backends.mkldnn.matmul, "fp32_precision", "bf16"),
    "convolutions on CPU": lambda: setattr(torch.backends.mkldnn.conv, "fp32_precision", "bf16"),
}


@pytest.mark.parametrize("change", USER_CHANGES)
def test_products_are_exact_and_settings_are_restored(change):
    USER_CHANGES[change]()
    before = precision_settings()
    with use_full_float32_precision():
        assert set(precision_settings()) == {"ieee"}
        assert legacy_flags() == (False, False, "highest")
    assert precision_settings() == before


def test_legacy_flags_can_be_read_afterwards():
    before = legacy_flags()
    with use_full_float32_precision():
        pass
    assert legacy_flags() == before


def test_settings_are_restored_after_an_error():
    before = precision_settings()
    with pytest.raises(ZeroDivisionError), use_full_float32_precision():
        raise ZeroDivisionError
    assert precision_settings() == before
