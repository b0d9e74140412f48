"""Extras of this distribution, for errors about packages that are not installed."""

from __future__ import annotations

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


def find_package_error_for_module_not_found(error: ModuleNotFoundError) -> MissingPackageError | None:
    """Return an error that names the extra of the package; None if the package belongs to no extra."""
    package = (error.name or "").partition(".")[0]
    extras = EXTRAS | {"search": _TRAINING}
    return next((MissingPackageError(package, extra) for extra, names in extras.items() if package in names), None)


def find_missing_training_package_error() -> MissingPackageError | None:
    """Return an error if a package for training is not installed, else None. Imports nothing."""
    missing = (package for package in ("torch", *sorted(_TRAINING)) if find_spec(package) is None)
    return next((MissingPackageError(package, "search") for package in missing), None)
