"""Extras of this distribution, for errors about packages that are not installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from bln_search.core.errors import MissingPackageError

EXTRAS: dict[str, frozenset[str]] = {
    "search": frozenset({"alembic", "cmaes", "jinja2", "optuna", "pyarrow", "ray", "sklearn", "sqlalchemy"}),
    "service": frozenset(
        {"alembic", "cachetools", "fastapi", "httptools", "httpx", "jinja2", "markdown_it", "nh3", "prometheus_client"}
        | {"sqlalchemy", "uvicorn", "uvloop"}
    ),
    "export": frozenset({"onnx", "onnxruntime", "onnxscript"}),
}
"""Import names of the packages of each extra. The driver of Postgres is chosen by the database URL."""

_TRAINING = EXTRAS["search"] | {"safetensors", "scipy", "torch"}
"""What runs a study: also packages that a machine which only serves may lack, as the image `web`."""

_SERVICE_VERBS = frozenset(
    {"cancel", "pause", "resume", "retry", "serve", "share-link", "submit", "submit-results", "token", "watch"}
)
"""Verbs for which the extra `search` would not be enough."""


def find_package_error_for_module_not_found(
    error: ModuleNotFoundError, words: Sequence[str]
) -> MissingPackageError | None:
    """Return an error that names the extra of a package that is not installed; None if it belongs to no extra.

    Args:
        error: Names the package.
        words: Of the command; a package may belong to several extras.
    """
    package = (error.name or "").partition(".")[0]
    extras = EXTRAS | {"search": _TRAINING}
    verb = next((word for word in words if not word.startswith("-")), "")
    order = sorted(extras, key="service".__ne__) if verb in _SERVICE_VERBS else extras
    return next((MissingPackageError(package, extra) for extra in order if package in extras[extra]), None)


def find_missing_onnx_package_error() -> MissingPackageError | None:
    """Return an error if a package for ONNX is not installed, else None. Imports nothing."""
    missing = (package for package in sorted(EXTRAS["export"]) if find_spec(package) is None)
    alternative = "without ONNX: --forms torch_export or --forms safetensors"
    return next((MissingPackageError(package, "export", alternative) for package in missing), None)


def find_missing_training_package_error() -> MissingPackageError | None:
    """Return an error if a package for training is not installed, else None. Imports nothing."""
    missing = (package for package in ("torch", *sorted(_TRAINING)) if find_spec(package) is None)
    return next((MissingPackageError(package, "search") for package in missing), None)
