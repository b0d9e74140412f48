"""Trained networks and their exports, made once for all tests of this folder."""

from __future__ import annotations

import pytest

from bln_search.api.export.study_export import export_trained_row
from bln_search.core.checkpoints import FolderStore
from tests.api.export.exported_rows import NETWORKS
from tests.api.trained import row_of, train


@pytest.fixture(scope="package")
def networks(tmp_path_factory):
    """Each network, trained when it is first asked for."""
    folder, trained = tmp_path_factory.mktemp("checkpoints"), {}

    def network(name):
        if name not in trained:
            model, arm, data = NETWORKS[name]
            trained[name] = train(folder, model, arm, data=data)
        return FolderStore(folder), trained[name], NETWORKS[name][2]

    return network


@pytest.fixture(scope="package")
def exported(networks, tmp_path_factory):
    """The export of a row, written when it is first asked for."""
    folder, exports = tmp_path_factory.mktemp("exports"), {}

    def export_once(name, code):
        if (name, code) not in exports:
            checkpoints, trained, data = networks(name)
            row, test = row_of(trained, code)
            target = folder / f"{name}-{code}"
            export_trained_row(row, checkpoints, data, target)
            exports[name, code] = target, test, data
        return exports[name, code]

    return export_once
