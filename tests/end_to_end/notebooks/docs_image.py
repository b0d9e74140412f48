"""The picture of a notebook in docs/images: `python -m tests.end_to_end.notebooks.docs_image` writes `notebook.png`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from PIL import Image

from tests.conftest import ROOT
from tests.end_to_end.browser import chromium
from tests.end_to_end.notebooks.servers import jupyterlab
from tests.end_to_end.notebooks.tables import Table
from tests.end_to_end.notebooks.test_jupyterlab import open_notebook

FILE = ROOT / "docs" / "images" / "notebook.png"

TRAIN = """
import torch
from sklearn.datasets import load_digits
from torch import nn
import bln_search

torch.manual_seed(0)
digits = load_digits()
inputs, classes = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
train_loader = list(zip(inputs[:1200].split(25), classes[:1200].split(25)))
validation_loader = list(zip(inputs[1200:].split(25), classes[1200:].split(25)))
model = bln_search.convert(nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10)))
optimizer = torch.optim.Adam(model.parameters(), 0.01)
for _ in range(8):
    for x, y in train_loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""
SHOW = "ranked = bln_search.evaluate_configurations(model, train_loader, validation_loader)\nranked"


def main():
    """Train a small network on the handwritten digits, show its table in JupyterLab, and sort it."""
    folder = tempfile.TemporaryDirectory()
    with folder as name, jupyterlab(Path(name), [TRAIN, SHOW]) as address_of, chromium() as browser:
        page = open_notebook(browser, address_of("notebook.ipynb"))
        page.evaluate("void window.jupyterapp.commands.execute('notebook:run-all-cells')")
        table = Table(page)
        table.sort("configuration")
        page.set_viewport_size({"width": 1300, "height": 2200})
        page.mouse.move(0, 0)
        page.wait_for_timeout(1_000)
        table.root.screenshot(path=FILE)
    Image.open(FILE).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(FILE, optimize=True)
    print(f"{FILE}: {FILE.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main()
