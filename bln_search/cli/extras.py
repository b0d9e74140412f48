"""Which extra brings a package that was looked for and is not installed."""

from __future__ import annotations

from importlib.util import find_spec

from bln_search.core.errors import MissingPackageError

EXTRAS: dict[str, frozenset[str]] = {
    "train": frozenset({"cmaes", "optuna", "pyarrow", "ray", "safetensors", "scipy", "sklearn", "torch"}),
    "web": frozenset({"fastapi", "httptools", "jinja2", "plotly", "prometheus_client", "uvicorn", "uvloop"}),
    "client": frozenset({"httpx"}),
    "export": frozenset({"onnx", "onnxruntime", "onnxscript"}),
}
"""What each extra brings, by the names that are imported. A driver of Postgres is asked for by its URL."""


def missing_package(error: ModuleNotFoundError) -> MissingPackageError | None:
    """The clear error where the package belongs to an extra; None where it is none of ours."""
    package = (error.name or "").partition(".")[0]
    return next((MissingPackageError(package, extra) for extra, brings in EXTRAS.items() if package in brings), None)


def missing_for_training() -> MissingPackageError | None:
    """What keeps this installation from training, if anything does. Nothing is imported to find out."""
    found = (package for package in ("torch", *sorted(EXTRAS["train"])) if find_spec(package) is None)
    return next((MissingPackageError(package, "train") for package in found), None)
