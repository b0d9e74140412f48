"""Results of per-layer searches over the trained networks of an arm, as stored and reported."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from bln_search.core.class_prior import ClassPriorBaseline
from bln_search.core.enums import LayerScope, LayerSearchAlgorithm
from bln_search.core.loss_description import CROSS_ENTROPY, LossDescription
from bln_search.ranking.analysis_part import StoredAnalysisModel
from bln_search.ranking.statistics.intervals import ALPHA
from bln_search.specs.sections.layer_search import LayerSearchSpec

if TYPE_CHECKING:
    from bln_search.core.layer_search_record import LayerSearchRecord


def _infinity_if_null(value: Any) -> Any:
    return math.inf if value is None else value


def _has_test_accuracy(fields: dict[str, Any]) -> bool:
    """Whether a choice of an earlier version, whose task has an accuracy, was evaluated on test."""
    return fields["test_accuracy"] is not None


Loss = Annotated[float, BeforeValidator(_infinity_if_null)]
"""Loss; infinity, which JSON cannot represent, is written as null."""


@dataclass(frozen=True)
class NetworkLayerSearch:
    """The finished search of one network.

    Attributes:
        arm: Label of the arm.
        point: Point of the search space as JSON; empty without a space.
        seed: Seed of the network.
        spec: Specification of the search.
        record: Its result.
        made_at: Time at which it ended.
    """

    arm: str
    point: str
    seed: int
    spec: LayerSearchSpec
    record: LayerSearchRecord
    made_at: datetime


class LayerChoiceOptions(StoredAnalysisModel):
    """A choice of the search: the configuration of one layer, or of several tied layers.

    Attributes:
        name: Name of the choice.
        layers: Names of its layers.
        options: Options to choose from.
        excluded: Options without a value, each with the reason.
    """

    name: str
    layers: tuple[str, ...]
    options: tuple[str, ...]
    excluded: dict[str, str] = Field(default_factory=dict)


class PerLayerRow(StoredAnalysisModel):
    """A per-layer configuration with its means over networks.

    Attributes:
        configuration: Configurations of the layers separated by dots; of a uniform one that of all layers.
        loss: Mean loss.
        loss_half: Half the width of its 95 % t interval; None for one network.
        accuracy: Mean accuracy, fraction; None for a task without accuracy.
        accuracy_half: Half the width of its 95 % t interval; None for one network, or without accuracy.
        networks: Number of networks.
    """

    configuration: str
    loss: float
    loss_half: float | None
    accuracy: float | None
    accuracy_half: float | None
    networks: int


class LayerSwitchEffect(StoredAnalysisModel):
    """Mean loss with a switch of a choice at T minus that with the switch at F, over networks.

    It is averaged over all other choices where all configurations were enumerated, and taken around the best
    configuration where the space was searched.

    Attributes:
        choice: Name of the choice.
        statistic: Statistic of the switch.
        loss: Mean effect.
        half: Half the width of its 95 % t interval; None for one network.
        networks: Number of networks.
    """

    choice: str
    statistic: str
    loss: float
    half: float | None
    networks: int

    @property
    def excludes_zero(self) -> bool:
        """Whether the confidence interval excludes 0; False where it is unknown."""
        return self.half is not None and abs(self.loss) > self.half


class SelectedNetworkConfigurations(StoredAnalysisModel):
    """The configurations selected for one network, evaluated by cross-validation.

    Validation examples are divided into folds. The configuration selected on all other folds is evaluated on each fold;
    values are means over all examples. Accuracies are None for a task without accuracy.

    Attributes:
        seed: Seed of the network.
        evaluations: Number of evaluated configurations.
        best: Per-layer configuration selected on all examples.
        uniform: Uniform configuration selected on all examples.
        chosen: Per-layer configuration selected for each fold.
        apparent: Loss of the per-layer configuration on the examples that selected it.
        loss: Loss of the per-layer configurations on held-out folds.
        accuracy: Accuracy of the per-layer configurations on held-out folds.
        uniform_apparent: Loss of the uniform configuration on the examples that selected it.
        uniform_loss: Loss of the uniform configurations on held-out folds.
        uniform_accuracy: Accuracy of the uniform configurations on held-out folds.
        test_loss: Test loss of `best`; None where it is not finite or was not evaluated.
        test_accuracy: Test accuracy of `best`; None where it was not evaluated.
        test_uniform_loss: Test loss of `uniform`; None where it is not finite or was not evaluated.
        test_uniform_accuracy: Test accuracy of `uniform`; None where it was not evaluated.
        is_tested: Whether `best` and `uniform` were evaluated on test.
        not_finite: Number of evaluated configurations whose loss is not finite, which no table has.
    """

    seed: int
    evaluations: float
    best: str
    uniform: str
    chosen: tuple[str, ...]
    apparent: Loss
    loss: Loss
    accuracy: float | None
    uniform_apparent: Loss
    uniform_loss: Loss
    uniform_accuracy: float | None
    test_loss: float | None = None
    test_accuracy: float | None = None
    test_uniform_loss: float | None = None
    test_uniform_accuracy: float | None = None
    is_tested: bool = Field(default_factory=_has_test_accuracy)
    not_finite: int = 0

    @property
    def selection_bias(self) -> float:
        """Held-out loss minus apparent loss: how optimistic the apparent loss is."""
        return self.loss - self.apparent

    @property
    def difference_to_uniform(self) -> float:
        """Held-out loss minus that of uniform configurations; negative where per-layer is better."""
        return self.loss - self.uniform_loss


class HeldOutDifferenceToUniform(StoredAnalysisModel):
    """Held-out loss of per-layer configurations minus that of uniform ones, over seeds and examples.

    Attributes:
        mean: Mean difference.
        low: Lower end of its 95 % confidence interval.
        high: Upper end of its 95 % confidence interval.
        p: Two-sided p value.
        networks: Number of networks.
    """

    mean: float
    low: float
    high: float
    p: float
    networks: int

    @property
    def is_significantly_better(self) -> bool:
        """Whether per-layer configurations are significantly better (5 %)."""
        return self.p < ALPHA and self.mean < 0

    @property
    def is_significantly_worse(self) -> bool:
        """Whether per-layer configurations are significantly worse (5 %)."""
        return self.p < ALPHA and self.mean > 0


class PerLayerResult(StoredAnalysisModel):
    """Per-layer search over the networks of an arm at one point, on the validation split.

    Attributes:
        loss: Name and unit of all losses and their differences.
        arm: Label of the arm.
        point: Point of the search space as JSON; empty without a space.
        scope: Which layers are tied.
        search: Search algorithm.
        estimate: Population estimate.
        batch_size: Inference mini-batch size.
        examples: Number of validation examples that count.
        folds: Number of cross-validation folds.
        size: Number of configurations in decimal digits; it may exceed the range of integers of other languages.
        layers: Names of the normalization layers.
        choices: Choices of the search.
        networks: Searched networks.
        rows: Best configurations by mean loss over networks, of those evaluated for every network.
        uniform: Uniform configurations, by increasing mean loss.
        effects: Effects of the switches.
        marginal: Whether effects are averages over all configurations.
        difference: None where networks were evaluated on different examples.
        pending_seeds: Seeds whose networks are not searched yet.
        uncounted: Number of validation examples without a counted target, which are left out.
        class_prior: What predicting the class frequencies reaches on validation; None where it is unknown.
    """

    loss: LossDescription = CROSS_ENTROPY
    arm: str
    point: str
    scope: LayerScope
    search: LayerSearchAlgorithm
    estimate: str | None
    batch_size: int
    examples: int
    folds: int
    size: str
    layers: tuple[str, ...]
    choices: tuple[LayerChoiceOptions, ...]
    networks: tuple[SelectedNetworkConfigurations, ...]
    rows: tuple[PerLayerRow, ...]
    uniform: tuple[PerLayerRow, ...]
    effects: tuple[LayerSwitchEffect, ...]
    marginal: bool
    difference: HeldOutDifferenceToUniform | None
    pending_seeds: tuple[int, ...] = ()
    uncounted: int = 0
    class_prior: ClassPriorBaseline | None = None

    @property
    def searched_layers(self) -> tuple[str, ...]:
        """Names of the layers of all choices; the other layers keep their configurations."""
        return tuple(name for choice in self.choices for name in choice.layers)

    @property
    def has_accuracy(self) -> bool:
        """Whether all rows have an accuracy."""
        return all(row.accuracy is not None for row in (*self.rows, *self.uniform))

    @property
    def best_row(self) -> PerLayerRow | None:
        """The configuration of lowest mean loss; None where there is none."""
        return self.rows[0] if self.rows else None
