"""A program that uses the complete Python interface, for tests of what must be installed for it."""

from __future__ import annotations

from tests.docs.pages import README, blocks

_REST = """
from pathlib import Path
from tempfile import mkdtemp

folder = Path(mkdtemp())
ranked.save(folder / "table")
assert bln_search.load_ranked(folder / "table").to_csv() == ranked.to_csv()
assert ranked.plot().data

inputs, _ = next(iter(validation_loader))
bln_search.export(model, folder / "network", example_inputs=inputs, formats=("safetensors", "torch_export"))
assert torch.allclose(bln_search.load(folder / "network")(inputs), model.eval()(inputs), atol=1e-5)

options = {"progress": False}
assert bln_search.search_layers(model, train_loader, validation_loader, search="racing", folds=2, **options).best
bln_search.fine_tune(model, None, train_loader, validation_loader, learning_rate=1e-3, epochs=1, **options)
conditions = {"clean": validation_loader, "other": validation_loader}
over_conditions = bln_search.evaluate_configurations(model, train_loader, conditions, **options)
assert over_conditions.plot().data and over_conditions.by_batch_size.plot().data

scores = bln_search.compare({"sgd": [0.1, 0.2, 0.3], "adam": [0.3, 0.5, 0.4]})
assert scores.plot().data and scores.latex()

bln_search.corrupt(torch.rand(2, 3, 8, 8), "gaussian_noise", severity=3)
bln_search.initialize(nn.Sequential(nn.Linear(20, 8), bln_search.BN(8), nn.Linear(8, 2)), inputs)
"""


def whole_python_interface() -> str:
    """Return the example of the README, and what may follow it."""
    (example,) = blocks(README, "python")
    return example.text + _REST
