"""The Python interface needs no package of an extra."""

from __future__ import annotations

import sys

import pytest

import bln_search
from bln_search.cli.extras import EXTRAS
from tests.api.own_network import make_loader, make_network
from tests.docs.pages import run_python
from tests.support.python_interface import whole_python_interface

BROUGHT_ANYWAY = {"jinja2", "markdown_it"}
"""By torch and rich."""

HIDDEN = set().union(*EXTRAS.values()) - BROUGHT_ANYWAY | {"numba", "pandas", "PIL", "psycopg", "s3fs"}


_HIDE = f"import sys\nsys.modules.update(dict.fromkeys({sorted(HIDDEN)!r}))\n"


def test_every_public_name_is_there_with_the_packages_that_are_always_installed(tmp_path):
    names = sorted(set(bln_search.__all__) - {"Client", "ServiceError"})
    code = f"import bln_search\nprint(len([getattr(bln_search, name) for name in {names!r}]))"
    assert run_python(_HIDE + code, where=tmp_path) == f"{len(names)}\n"


@pytest.mark.slow
def test_the_whole_interface_works_with_the_packages_that_are_always_installed(tmp_path):
    assert "Recommended" in run_python(_HIDE + whole_python_interface(), where=tmp_path)


def test_a_search_with_optuna_names_the_extra_before_it_evaluates(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    network = make_network()
    network.register_forward_hook(lambda *_: pytest.fail("the network was evaluated"))
    with pytest.raises(bln_search.MissingPackageError, match=r"optuna.*pip install 'bln-search\[search\]'"):
        bln_search.search_layers(network, make_loader(), make_loader(), search="tpe", progress=False)
