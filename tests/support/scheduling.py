"""Which test process runs what: a module as a whole, the longest first."""

from __future__ import annotations

from xdist.scheduler.loadgroup import LoadGroupScheduling

LONGEST = (
    "ray",
    "browser",
    "service",
    "interruption",
    "backup",
    "bucket",
    "export",
    "tests/end_to_end/test_commands.py",
    "tests/worker/test_loop.py",
    "layer search",
    "tests/docs/test_tutorials.py",
    "tests/docs/test_plugins.py",
    "tests/execution/executors/test_local.py",
    "tests/contracts/backups/test_restoration.py",
    "tests/contracts/backups/test_creation.py",
    "tests/contracts/backups/test_missing_files.py",
    "tests/worker/test_sampled_studies.py",
    "rest by example",
    "tests/worker/test_run.py",
    "tests/cli/test_search_layers.py",
    "tests/cli/studies/test_comparison.py",
    "tests/search/optuna/test_sampler.py",
    "tests/worker/test_analysis.py",
    "tests/evaluation/test_recurrent.py",
    "tests/contracts/results/test_analyses.py",
    "tests/end_to_end/test_readme.py",
    "tests/contracts/checkpoints/test_pruning.py",
    "tests/contracts/checkpoints/test_garbage.py",
    "tests/contracts/migrations/test_opening.py",
    "tests/contracts/test_writers.py",
    "tests/search/layers/test_search.py",
    "tests/service/test_schemathesis.py",
    "tests/evaluation/test_wirings.py",
    "tests/evaluation/tree/test_evaluator.py",
    "tests/evaluation/tree/test_running_score_sums.py",
    "tests/norms/test_invariances.py",
    "tests/evaluation/test_one_pass.py",
)
"""Groups and modules that take longest, in the order of their times; the others follow as they are collected."""


EXPORTS = (
    "tests/api/export/",
    "tests/api/test_analytic_conversion.py",
    "tests/api/test_docstrings.py",
    "tests/api/test_encoders.py",
    "tests/api/test_values_from_weights.py",
    "tests/cli/studies/test_tasks.py",
    "tests/models/recurrent/test_padding.py",
    "tests/norms/test_unbiased.py",
)
"""Modules with exports, which are one group: the first export to ONNX in a process takes 4 s longer than others."""


class ModuleScheduling(LoadGroupScheduling):
    """Hands out groups (`xdist_group`) and, of tests without a group, whole modules, in the order of collection.

    The tests of a module share what is made once in a process: a server, a finished study, the losses of an oracle.
    """

    def __init__(self, config, log=None):
        config.option.loadscopereorder = False  # xdist would begin with the unit that has the most tests
        super().__init__(config, log)

    def _split_scope(self, nodeid):
        return "export" if nodeid.startswith(EXPORTS) else super()._split_scope(nodeid).split("::", 1)[0]


def group_of(item):
    """The unit of work that a test belongs to: the name of its group, or its module."""
    if item.nodeid.startswith(EXPORTS):
        return "export"
    mark = item.get_closest_marker("xdist_group")
    return mark.args[0] if mark else item.nodeid.split("::", 1)[0]


def rank(item):
    """Where the unit of a test stands in the order."""
    unit = group_of(item)
    return LONGEST.index(unit) if unit in LONGEST else len(LONGEST)
