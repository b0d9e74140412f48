"""Without the library of a trainer, its module names the extra to install."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

import bln_search


@pytest.mark.parametrize(
    ("module", "missing", "extra"),
    [
        ("lightning", ["lightning", "lightning.pytorch", "pytorch_lightning"], "lightning"),
        ("transformers", ["transformers"], "transformers"),
        ("transformers", ["accelerate", "accelerate.utils"], "transformers"),
    ],
)
def test_the_extra_is_named(module, missing, extra, monkeypatch):
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"bln_search.integrations.{module}", raising=False)
    with pytest.raises(bln_search.MissingPackageError, match=rf"{missing[0]}.* pip install 'bln-search\[{extra}\]'"):
        import_module(f"bln_search.integrations.{module}")
