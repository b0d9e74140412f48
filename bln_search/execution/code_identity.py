"""Digests of the code that makes the results of a study: of its plugins and of bln-search."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from pathlib import Path

from bln_search.core.code_identity import CodeIdentity, list_differing_files
from bln_search.core.errors import CodeChangedError
from bln_search.core.registry import ADAPTATIONS, CORRUPTIONS, MODELS
from bln_search.core.source_digests import (
    digest_folder,
    digest_modules_of_package,
    digest_own_modules,
    find_module_name,
    find_source_path,
)
from bln_search.core.task_plugin import TASKS, load_task_plugin
from bln_search.data.catalog import CATALOG, list_data_set_modules
from bln_search.data.corruptions.function import get_corruption_function
from bln_search.execution.messages import TrialTask
from bln_search.models.factory import get_model_factory
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import TrialSpec

_PACKAGE = Path(__file__).parents[1]
_DECISIVE_PACKAGES = ("norms", "tasks")
"""Packages of bln-search that every study uses."""

_ADAPTATION = "bln_search/adaptation"
"""The package that a study with arms of adaptation uses."""


def compute_code_identity(study: StudySpec | TrialSpec) -> CodeIdentity:
    """Digest the code of a study or a trial.

    Raises:
        DataError: The data set of an installed package cannot be loaded.
        ModelError: The model, the task or a method of adaptation of an installed package cannot be loaded.
    """
    corruptions = [condition.corruption for condition in study.evaluation.conditions]
    identity = _compute_code_identity(study.model.name, study.data.name, study.resolved_task.name, corruptions)
    return identity if not study.adaptation else _add_adaptations(identity, {arm.name for arm in study.adaptation})


def _add_adaptations(identity: CodeIdentity, names: Iterable[str]) -> CodeIdentity:
    modules: set[str] = set()
    for name in set(names) - set(ADAPTATIONS.built_in):
        info = ADAPTATIONS.load_info(name)
        modules |= ADAPTATIONS.list_plugin_modules(name, None if info is None else info.factory)
    plugins = {**identity.plugins, **digest_own_modules(frozenset(modules))}
    built_in = {**identity.built_in, _ADAPTATION: digest_folder(_PACKAGE / "adaptation")}
    return CodeIdentity(dict(sorted(plugins.items())), dict(sorted(built_in.items())))


def _compute_code_identity(model: str, data: str, task: str, corruptions: Iterable[str]) -> CodeIdentity:
    plugins = _list_task_modules(task)
    built_in = {f"bln_search/{package}": digest_folder(_PACKAGE / package) for package in _DECISIVE_PACKAGES}
    info, model_modules = MODELS.find_info(model), frozenset({find_module_name(get_model_factory(model))})
    if model in MODELS.built_in:
        built_in |= digest_modules_of_package(model_modules, "bln_search.models")
    else:
        plugins |= model_modules | MODELS.list_plugin_modules(model, None if info is None else info.factory)
    data_modules = list_data_set_modules(data)
    if data in CATALOG:
        built_in |= digest_modules_of_package(data_modules, "bln_search.data")
    else:
        plugins |= data_modules
    for name in set(corruptions) - set(CORRUPTIONS.built_in):
        plugins |= CORRUPTIONS.list_plugin_modules(name) | {find_module_name(get_corruption_function(name))}
    return CodeIdentity(digest_own_modules(plugins), dict(sorted(built_in.items())))


def _list_task_modules(name: str) -> frozenset[str]:
    if name not in TASKS.plugins:
        return frozenset()
    plugin = load_task_plugin(name)
    parts = [part for part in (plugin.score, *plugin.metrics.values(), plugin.check_labels) if part is not None]
    modules = {part.partition(":")[0] if isinstance(part, str) else find_module_name(part) for part in parts}
    return frozenset(TASKS.list_plugin_modules(name) | modules)


def describe_changed_files(files: Iterable[str]) -> str:
    """Names of files that changed, with their present paths."""
    described = []
    for name in files:
        path = find_source_path(name)
        described.append(f"{name} (not found now)" if path is None else f"{name} ({path})")
    return ", ".join(described)


def check_code_of_task(task: TrialTask) -> CodeIdentity:
    """Return the code identity of the trial of a task in this process.

    Raises:
        CodeChangedError: It is not that of the process that runs the study.
    """
    identity = compute_code_identity(task.trial)
    expected = task.code
    if expected is not None and (differing := list_differing_files(expected.plugins, identity.plugins)):
        raise CodeChangedError(
            f"on {socket.gethostname()} the code of a trial is not that of the process that runs its study: "
            f"{describe_changed_files(differing)}. The file changed while the study ran, or machines have different "
            "versions: install one version everywhere, then start the command or worker again"
        )
    return identity
