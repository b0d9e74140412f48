"""Products in full single precision, and every setting of the process as it was."""

from __future__ import annotations

import pytest
import torch

from bln_search.norms.precision import full_precision

SETTINGS = (
    torch.backends.cuda.matmul,
    torch.backends.cudnn.conv,
    torch.backends.cudnn.rnn,
    torch.backends.mkldnn.matmul,
    torch.backends.mkldnn.conv,
    torch.backends.mkldnn.rnn,
)


def settings():
    return [one.fp32_precision for one in SETTINGS]


def flags():
    return torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32, torch.get_float32_matmul_precision()


@pytest.fixture(autouse=True)
def restored():
    before, products = settings(), torch.get_float32_matmul_precision()
    yield
    torch.backends.fp32_precision = "none"
    torch.backends.cudnn.fp32_precision = "none"
    torch.set_float32_matmul_precision(products)
    torch.backends.cudnn.allow_tf32 = True
    for setting, value in zip(SETTINGS, before, strict=True):
        setting.fp32_precision = value


USERS = {
    "nothing": lambda: None,
    "products, older flag": lambda: torch.set_float32_matmul_precision("high"),
    "products, newer setting": lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
    "convolutions, newer setting": lambda: setattr(torch.backends.cudnn.conv, "fp32_precision", "ieee"),
    "everything": lambda: setattr(torch.backends, "fp32_precision", "tf32"),
    "cuDNN": lambda: setattr(torch.backends.cudnn, "fp32_precision", "tf32"),
    "products on CPU": lambda: setattr(torch.backends.mkldnn.matmul, "fp32_precision", "bf16"),
    "convolutions on CPU": lambda: setattr(torch.backends.mkldnn.conv, "fp32_precision", "bf16"),
}


@pytest.mark.parametrize("user", USERS)
def test_products_are_exact_and_settings_are_restored(user):
    USERS[user]()
    before = settings()
    with full_precision():
        assert set(settings()) == {"ieee"}
        assert flags() == (False, False, "highest")
    assert settings() == before


def test_legacy_flags_can_be_read_afterwards():
    before = flags()
    with full_precision():
        pass
    assert flags() == before


def test_settings_are_restored_after_an_error():
    before = settings()
    with pytest.raises(ZeroDivisionError), full_precision():
        raise ZeroDivisionError
    assert settings() == before
