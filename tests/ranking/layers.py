"""Hand-written results of per-layer searches."""

from __future__ import annotations

from itertools import islice, product

from bln_search.core.configuration import all_configurations
from bln_search.core.enums import LayerScope, LayerSearchAlgorithm, PopulationEstimate
from bln_search.core.method import Method, Statistic
from bln_search.ranking.per_layer import (
    HeldOutDifferenceToUniform,
    LayerChoiceOptions,
    LayerSwitchEffect,
    PerLayerResult,
    PerLayerRow,
    SelectedNetworkConfigurations,
)

CODES = tuple(str(configuration) for configuration in all_configurations(Method.BLN))
BETTER = HeldOutDifferenceToUniform(mean=-0.012, low=-0.02, high=-0.004, p=0.003, networks=10)
WORSE = HeldOutDifferenceToUniform(mean=0.012, low=0.004, high=0.02, p=0.003, networks=10)
EQUAL = HeldOutDifferenceToUniform(mean=-0.002, low=-0.01, high=0.006, p=0.6, networks=10)
REASON = "Std_B: m/(m-1) has no value for m = 1"


def network(seed, layers=4, **replacements):
    """One that looks 0.01 better than it is, and is 0.012 better than uniform."""
    figures = {"apparent": 0.478, "loss": 0.488, "accuracy": 0.85}
    uniform = {"uniform_apparent": 0.5, "uniform_loss": 0.5, "uniform_accuracy": 0.84}
    test = {"test_loss": 0.49, "test_accuracy": 0.85, "test_uniform_loss": 0.5, "test_uniform_accuracy": 0.84}
    best = ".".join(["TTFF"] * layers)
    chosen = {"evaluations": 16**4, "best": best, "uniform": "TTFF", "chosen": (best, best)}
    return SelectedNetworkConfigurations(seed=seed, **{**figures, **uniform, **test, **chosen, **replacements})


def effect(choice, statistic, position):
    """Every other one lowers the loss beyond doubt."""
    return LayerSwitchEffect(choice=choice, statistic=statistic, loss=-0.03 + position / 100, half=0.015, networks=10)


def per_layer_result(layers=4, networks=10, rows=30, difference=BETTER, excluded=None, **replacements):
    """A search of so many BLN layers. excluded: reasons by option, the same in every layer."""
    names = tuple(f"norm{position}" for position in range(layers))
    codes = (".".join(row) for row in product(reversed(CODES), repeat=layers))
    half = 0.01 if networks > 1 else None
    fields = {
        "arm": "bln",
        "point": "",
        "scope": LayerScope.PER_LAYER,
        "search": LayerSearchAlgorithm.EXACT,
        "estimate": PopulationEstimate.FROZEN,
        "batch_size": 25,
        "examples": 500,
        "folds": 2,
        "size": str(16**layers),
        "layers": names,
        "choices": tuple(
            LayerChoiceOptions(name=name, layers=(name,), options=CODES, excluded=excluded or {}) for name in names
        ),
        "networks": tuple(network(seed, layers) for seed in range(networks)),
        "rows": tuple(
            PerLayerRow(
                configuration=code,
                loss=0.4 + position / 1000,
                loss_half=half,
                accuracy=0.9,
                accuracy_half=half,
                networks=networks,
            )
            for position, code in enumerate(islice(codes, rows if networks else 0))
        ),
        "uniform": tuple(
            PerLayerRow(
                configuration=code,
                loss=0.5 + position / 100,
                loss_half=half,
                accuracy=0.8,
                accuracy_half=half,
                networks=networks,
            )
            for position, code in enumerate(CODES if networks else ())
        ),
        "effects": tuple(
            effect(name, statistic.value, position) for name in names for position, statistic in enumerate(Statistic)
        )
        if networks
        else (),
        "marginal": True,
        "difference": difference if networks else None,
    }
    return PerLayerResult(**{**fields, **replacements})
