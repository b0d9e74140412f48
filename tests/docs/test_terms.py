"""A user who searches for a standard term finds it, in the README or on a page."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import TEXTS, prose

TERMS = {
    "ablation": r"ablation",
    "API reference": r"API reference",
    "autocast": r"autocast",
    "Bayesian": r"Bayesian",
    "BibTeX": r"BibTeX",
    "cite": r"\bcite",
    "Colab": r"Colab",
    "conda": r"\bconda\b",
    "confidence interval": r"confidence interval",
    "dataframe": r"dataframe",
    "DDP": r"\bDDP\b",
    "early stopping": r"early stopping",
    "FAQ": r"\bFAQ\b",
    "fine-tune": r"fine-tun",
    "grid search": r"grid search",
    "Helm": r"\bHelm\b",
    "hyper-parameter": r"hyper-parameter",
    "importance": r"importance",
    "Jupyter": r"Jupyter",
    "Kubernetes": r"Kubernetes",
    "licence, license": r"licen[cs]e",
    "log level": r"log level",
    "macOS": r"macOS",
    "mixed precision": r"mixed precision",
    "MLflow": r"MLflow",
    "multi-GPU": r"multi-GPU",
    "nginx": r"nginx",
    "notebook": r"notebook",
    "notification": r"notification",
    "p-value": r"p-value",
    "pandas": r"pandas",
    "progress bar": r"progress bar",
    "PyPI": r"\bPyPI\b",
    "quota": r"quota",
    "regression": r"regression",
    "resume": r"\bresume",
    "segmentation": r"segmentation",
    "shell completion": r"shell completion",
    "significance": r"significan(t|ce)",
    "Slurm": r"Slurm",
    "sweep": r"sweep",
    "TensorBoard": r"TensorBoard",
    "TLS": r"\bTLS\b",
    "transformer": r"transformer",
    "troubleshooting": r"troubleshooting",
    "tutorial": r"tutorial",
    "wandb": r"wandb",
    "webhook": r"webhook",
    "Windows": r"\bWindows\b",
}
"""Regular expressions by the term; case does not matter."""

PROSE = {name: prose(page) for name, page in TEXTS.items() if name != "decisions.md"}


@pytest.mark.parametrize("term", TERMS)
def test_the_term_is_in_a_sentence(term):
    """Outside of code blocks and of the record of decisions."""
    assert any(re.search(TERMS[term], text, re.IGNORECASE) for text in PROSE.values())
