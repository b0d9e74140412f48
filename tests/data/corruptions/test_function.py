"""Installed packages add corruptions; what they return is checked."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import numpy as np
import pytest

from bln_search.core.corruption import parse_corruption
from bln_search.core.errors import DataError
from bln_search.core.registry import CORRUPTIONS
from bln_search.data.corruptions import corrupt_images, get_corruption_function
from tests.data.corruptions.example_images import make_images

NOT_A_FUNCTION = 3


def invert(images, severity, generators):
    """A corruption of an installed package: the negative, beyond the range at severity 5."""
    return 1 - images if severity < 5 else 2 - 2 * images


def lose_an_image(images, severity, generators):
    """A corruption that does not return all images."""
    return images[1:]


def divide_by_zero(images, severity, generators):
    """A corruption whose values are not finite."""
    return images * np.nan


@pytest.fixture(autouse=True)
def plugins(monkeypatch):
    names = ("invert", "lose_an_image", "divide_by_zero", "NOT_A_FUNCTION", "missing")
    points = {name: EntryPoint(name, f"{__name__}:{name}", "bln_search.corruptions") for name in names}
    monkeypatch.setattr(CORRUPTIONS, "plugins", points)


def test_installed_package_adds_a_corruption():
    images = make_images(3)
    np.testing.assert_allclose(corrupt_images(images, parse_corruption("invert-2")), 1 - images, atol=1e-7)
    clipped = corrupt_images(images, parse_corruption("invert-5"))
    np.testing.assert_allclose(clipped, np.minimum(2 - 2 * images, 1), atol=1e-6)
    assert "invert" in CORRUPTIONS.list_names()


@pytest.mark.parametrize("name", ["lose_an_image", "divide_by_zero"])
def test_plugin_that_does_not_return_images_is_an_error(name):
    with pytest.raises(DataError, match=f"the corruption {name} returned"):
        corrupt_images(make_images(3), parse_corruption(name))


@pytest.mark.parametrize(("name", "problem"), [("missing", "cannot be loaded"), ("NOT_A_FUNCTION", "not a function")])
def test_broken_plugin_raises_one_clear_error(name, problem):
    with pytest.raises(DataError, match=f"the corruption {name} of an installed package .*{problem}"):
        get_corruption_function(name)


def test_unknown_name_lists_plugins_too():
    with pytest.raises(DataError, match=r"choose one of .*brightness, .*invert"):
        get_corruption_function("os.system")
