"""Recipes of docs/networks.md that need libraries of their own: each row is compared with a plain loop."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bench.support.reporting import finish
from bench.support.zoo.comparison import largest_relative_difference, losses_in
from bln_search.api.apply import apply_configuration
from bln_search.core.errors import BatchDependenceWarning

PAGE = Path(__file__).parents[3] / "docs" / "networks.md"
Names = dict[str, Any]


@dataclass(frozen=True)
class Recipe:
    """What a plain loop needs of a recipe.

    Attributes:
        package: The package, for its version.
        call: Outputs of the network for a mini-batch, from the names of the recipe.
        losses: Losses (n,) from outputs and a mini-batch.
        fill: A mini-batch with the first examples of another one behind its own, as the evaluation fills the last one;
            None for mini-batches that are all complete.
    """

    package: str
    call: Callable[[Names, Any, Any], Tensor]
    losses: Callable[[Tensor, Any], Tensor]
    fill: Callable[[Any, Any, int], Any] | None = None


def _pixel_losses(outputs: Tensor, batch: Any) -> Tensor:
    labels = batch["label"].as_tensor() if hasattr(batch["label"], "as_tensor") else batch["label"]
    return F.binary_cross_entropy_with_logits(outputs[: len(labels)], labels, reduction="none").flatten(1).mean(1)


def _fill_images(batch: Any, first: Any, missing: int) -> Any:
    return {**batch, "image": torch.cat([batch["image"], first["image"][:missing]])}


RECIPES = {
    "monai": Recipe("monai", lambda names, model, batch: names["call"](model, batch), _pixel_losses, _fill_images),
    "lightning": Recipe(
        "lightning",
        lambda _, model, batch: model(batch[0]),
        lambda outputs, batch: F.cross_entropy(outputs, batch[1], reduction="none"),
    ),
    "torch_geometric": Recipe(
        "torch_geometric",
        lambda names, model, batch: names["call_graphs"](model, batch),
        lambda outputs, batch: F.cross_entropy(outputs, batch.y, reduction="none"),
    ),
}
"""By the library that the recipe imports."""


def run_recipes(*, save: bool) -> None:
    """Run the recipes and print the largest difference of each. Raises ModuleNotFoundError for a missing library."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    entries = [_measure(library, recipe, blocks) for library, recipe in RECIPES.items()]
    for entry in entries:
        print(f"{entry['library']:18}{entry['rows']:3} rows, largest difference of losses {entry['losses']:.0e}")
    result = {
        "rows": sum(entry["rows"] for entry in entries),
        "max_relative_difference_of_losses": max(entry["losses"] for entry in entries),
        "versions": {recipe.package: version(recipe.package) for recipe in RECIPES.values()},
        "entries": entries,
    }
    finish("zoo_recipes", result, save=save)


def _measure(library: str, recipe: Recipe, blocks: Iterable[str]) -> dict[str, Any]:
    """Execute the blocks with the data and of one library; compare the rows of its table."""
    if find_spec(library) is None:
        raise ModuleNotFoundError(f"this needs {library}: pip install {recipe.package}")
    data, *others = blocks
    block = next(text for text in others if re.search(rf"^import {library}$", text, re.MULTILINE))
    names: Names = {"__name__": "recipe"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(data + block, str(PAGE), "exec"), names)
    ranked, batches = names["ranked"], list(names["validation"])
    differences = []
    for row in ranked:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BatchDependenceWarning)
            model = apply_configuration(deepcopy(names["model"]), row).eval()
        plain = _plain_losses(recipe, names, model, batches)
        differences.append(largest_relative_difference(losses_in(ranked, row), plain.numpy()))
    return {"library": library, "rows": len(ranked), "examples": len(plain), "losses": max(differences)}


@torch.no_grad()
def _plain_losses(recipe: Recipe, names: Names, model: Any, batches: list[Any]) -> Tensor:
    """Losses of all examples, mini-batch by mini-batch."""
    losses = []
    for batch in batches:
        filled = batch
        if recipe.fill is not None:
            missing = len(batches[0]["image"]) - len(batch["image"])
            filled = recipe.fill(batch, batches[0], missing) if missing else batch
        outputs = recipe.call(names, model, filled)
        plain = outputs.as_tensor() if hasattr(outputs, "as_tensor") else outputs
        losses.append(recipe.losses(plain, batch))
    return torch.cat(losses)
