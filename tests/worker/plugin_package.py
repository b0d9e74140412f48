"""A package with a model, a data set and a task, whose source files a test changes."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint

from bln_search.core import registry, source_digests, task_plugin

FILES = {
    "fast_infos.py": """
from bln_search.core.model_info import ModelInfo

FAST_NET = ModelInfo("fast_net:FastNet")
""",
    "fast_net.py": """
from torch import nn

from fast_layers import activation

class FastNet(nn.Module):
    def __init__(self, input_shape, classes, norm):
        super().__init__()
        layers = nn.Linear(6, 4), norm(4), activation(), nn.Linear(4, classes)
        self.layers = nn.Sequential(nn.Flatten(), *layers)

    def forward(self, x):
        return self.layers(x)
""",
    "fast_layers.py": "from torch.nn import Tanh as activation\n",
    "fast_data.py": """
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bln_search.data.catalog import CatalogEntry
from bln_search.data.dataset import DataSet


@dataclass(frozen=True)
class Made:
    paths: tuple = ()
    version: str = "1"

    def verify(self):
        return ()

    def decode(self):
        inputs = np.arange(240, dtype=np.uint8).reshape(40, 1, 2, 3)
        labels = np.arange(40) % 2
        return DataSet("fast_data", ("no", "yes"), inputs, labels, inputs[:20], labels[:20], scale=255.0)


FAST_DATA = CatalogEntry("fast_data", "made", ("no", "yes"), find=lambda folders: Made())
""",
    "fast_task.py": """
from bln_search.core.loss_description import LossDescription
from bln_search.core.task_plugin import TaskPlugin

FAST = TaskPlugin(loss=LossDescription("own loss", "nats"), score="fast_score:score", accuracy="which is right")
""",
    "fast_score.py": """
from torch.nn.functional import cross_entropy

def score(outputs, targets):
    return cross_entropy(outputs, targets, reduction="none"), outputs.argmax(1) == targets
""",
    "fast_noise.py": "def add(images, severity, generators):\n    return images\n",
}
CHANGES = {
    "fast_infos.py": ('"fast_net:FastNet"', '"fast_net:FastNet", takes_token_ids=True'),
    "fast_net.py": ("norm(4), activation()", "norm(4), nn.Sigmoid()"),
    "fast_layers.py": ("Tanh", "Sigmoid"),
    "fast_data.py": ("np.arange(40) % 2", "np.arange(40) % 3 % 2"),
    "fast_task.py": ("which is right", "which is correct"),
    "fast_score.py": ("return cross_entropy", "return 2 * cross_entropy"),
    "fast_noise.py": ("return images", "return 0 * images"),
}
"""A change of each file: the text before and after."""


class PluginPackage:
    """The installed package.

    Args:
        folder: Of the source files.
        monkeypatch: Of the test.
    """

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        for name, text in FILES.items():
            (folder / name).write_text(text)
        monkeypatch.syspath_prepend(folder)
        for kind, point in (
            (registry.MODELS, EntryPoint("fast_net", "fast_infos:FAST_NET", "bln_search.model_infos")),
            (registry.DATA_SETS, EntryPoint("fast_data", "fast_data:FAST_DATA", "bln_search.data_sets")),
            (task_plugin.TASKS, EntryPoint("fast", "fast_task:FAST", "bln_search.tasks")),
            (registry.CORRUPTIONS, EntryPoint("fast_noise", "fast_noise:add", "bln_search.corruptions")),
        ):
            monkeypatch.setattr(kind, "plugins", {point.name: point})
        self.start_new_process()

    def change(self, name):
        """Change a file, and start a new process."""
        before, after = CHANGES[name]
        text = (self.folder / name).read_text()
        assert before in text
        (self.folder / name).write_text(text.replace(before, after))
        self.start_new_process()

    def start_new_process(self):
        """Forget modules and digests, as a new process does."""
        for name in FILES:
            sys.modules.pop(name.removesuffix(".py"), None)
        for function in (source_digests.digest_own_modules, source_digests._digest_file):
            function.cache_clear()
