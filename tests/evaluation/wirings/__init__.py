"""Networks with normalization layers in many places, each written once for layers of any kind."""

from tests.evaluation.wirings.building import CLASSES, Wiring
from tests.evaluation.wirings.images import IMAGES
from tests.evaluation.wirings.parameters import PARAMETERS
from tests.evaluation.wirings.sequences import SEQUENCES
from tests.evaluation.wirings.settings import SETTINGS
from tests.evaluation.wirings.spoiled import SPOILED
from tests.evaluation.wirings.vectors import VECTORS

WIRINGS = {**VECTORS, **SEQUENCES, **IMAGES, **SETTINGS, **PARAMETERS, **SPOILED}

__all__ = ["CLASSES", "WIRINGS", "Wiring"]
