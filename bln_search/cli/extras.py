"""Extras of this distribution, for errors about packages that are not installed."""

from __future__ import annotations

from importlib.util import find_spec

from bln_search.core.errors import MissingPackageError

EXTRAS: dict[str, frozenset[str]] = {
    "train": frozenset({"cmaes", "optuna", "pyarrow", "ray", "safetensors", "scipy", "sklearn", "torch"}),
    "web": frozenset(
        {"cachetools", "fastapi", "httptools", "jinja2", "markdown_it", "nh3", "plotly", "prometheus_client", "uvicorn"}
        | {"uvloop"}
    ),
    "client": frozenset({"httpx"}),
    "export": frozenset({"onnx", "onnxruntime", "onnxscript"}),
}
"""Import names of the packages of each extra. The driver of Postgres is chosen by the database URL."""


def find_package_error_for_module_not_found(error: ModuleNotFoundError) -> MissingPackageError | None:
    """Return an error that names the extra of the package; None if the package belongs to no extra."""
    package = (error.name or "").partition(".")[0]
    return next(
        (MissingPackageError(package, extra) for extra, packages in EXTRAS.items() if package in packages), None
    )


def find_missing_training_package_error() -> MissingPackageError | None:
    """Return an error if a package for training is not installed, else None. Imports nothing."""
    missing = (package for package in ("torch", *sorted(EXTRAS["train"])) if find_spec(package) is None)
    return next((MissingPackageError(package, "train") for package in missing), None)
