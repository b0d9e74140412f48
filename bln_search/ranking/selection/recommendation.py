"""One row to use, and how far it can be relied on."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from bln_search.core.configuration import FEATURE_STATISTICS, InferenceConfiguration, Source
from bln_search.core.enums import PopulationEstimate
from bln_search.ranking.comparison import ComparedRow, Comparison
from bln_search.ranking.grouping import Losses
from bln_search.ranking.leaderboard import Candidate
from bln_search.ranking.selection.near_best import near_best, sizes_near_best
from bln_search.ranking.stored_model import Kept


class Confidence(StrEnum):
    """clear: told from every other row. shared: some cannot be told from it. one_seed: nothing is known of others."""

    CLEAR = "clear"
    SHARED = "shared"
    ONE_SEED = "one_seed"


class Alternative(Kept):
    """The row of lowest mean loss whose answers do not depend on the mini-batch, where the one to use is another.

    loss (nats), accuracy (fraction): means over seeds.
    """

    arm: str
    point: str
    configuration: str
    estimate: PopulationEstimate | None
    loss: float
    accuracy: float

    @property
    def name(self) -> str:
        """As the table has it."""
        return _named(self)


class Baseline(Kept):
    """The row of a network as it is, which is given up only for one that is significantly better.

    gain: by how much the mean loss of the row to use is lower; low, high: the 95 % interval of that; all 0 where the
    network is to stay as it is. significantly_better: how many rows are (5 %, Holm).
    """

    configuration: str
    estimate: PopulationEstimate | None
    gain: float
    low: float
    high: float
    significantly_better: int = 0

    @property
    def words(self) -> str:
        """One sentence."""
        name = " ".join(part for part in (self.configuration, self.estimate) if part)
        if self.gain == 0:
            if self.significantly_better:
                return "This is the network as it is: it is near the lowest mean loss."
            return "This is the network as it is: no configuration is significantly better (5 %, Holm)."
        return (
            f"Its mean loss is {self.gain:.4f} lower than that of the network as it is, {name} "
            f"(95 % confidence interval {self.low:.4f} to {self.high:.4f})."
        )


class Recommendation(Kept):
    """The row to use.

    deterministic: no other example has a say in an answer. computed: statistics computed at inference. batch_sizes:
    that at which it was ranked, and others at which it was measured to be near the best row; None where every size
    gives the same answers. sharing: rows of the first group. near: rows near the best one, itself included.
    first_share: how often it comes first when seeds and examples are drawn anew. loss (nats), accuracy (fraction):
    means over seeds. loss_above_best: by how much its mean loss is above that of the best row; loss_to_best: the upper
    end of the 95 % interval of that; both 0 for the best row itself. alternative: None where it is deterministic
    itself, or no row is. baseline: None where no row is that of a network as it is.
    """

    arm: str
    point: str
    configuration: str
    estimate: PopulationEstimate | None
    batch_size: int
    deterministic: bool
    computed: int
    batch_sizes: tuple[int, ...] | None
    sharing: int
    near: int
    of: int
    first_share: float
    loss: float
    accuracy: float
    loss_above_best: float
    loss_to_best: float
    alternative: Alternative | None
    confidence: Confidence
    baseline: Baseline | None = None

    @property
    def candidate(self) -> Candidate:
        """Its key in a table."""
        return self.arm, self.point, InferenceConfiguration(self.configuration), self.estimate, self.batch_size

    @property
    def words(self) -> str:
        """In a few sentences."""
        changed = self.baseline.words if self.baseline is not None and self.baseline.gain != 0 else ""
        said = f"Use {_named(self)}.", self._why, changed, self._sizes, self._given_away, self._sure, self._otherwise
        return " ".join(one for one in said if one)

    @property
    def _is_best(self) -> bool:
        return self.loss_above_best == 0 and self.loss_to_best == 0

    @property
    def _why(self) -> str:
        if self.baseline is not None and self.baseline.gain == 0:
            return self.baseline.words
        if self.confidence is Confidence.CLEAR:
            return "It is the best row."
        if self._is_best:
            return (
                f"It has the lowest mean loss, and the lowest in {self.first_share:.0%} of draws of seeds and examples."
            )
        group = f"Of the {self.near} rows near the lowest mean loss"
        if self.deterministic:
            return f"{group} it is the cheapest that takes nothing from the mini-batch."
        return f"{group} it is the cheapest (none of them is deterministic)."

    @property
    def _sizes(self) -> str:
        if self.batch_sizes is None:
            return "It takes nothing from the mini-batch." if self._is_best else ""
        sizes = ", ".join(str(size) for size in self.batch_sizes)
        return (
            f"Its answers depend on the mini-batch: it was measured to be best, or near it, in mini-batches of {sizes}."
        )

    @property
    def _given_away(self) -> str:
        if self._is_best:
            return ""
        return f"Its mean loss is {self.loss_above_best:.4f} above the lowest, at most {self.loss_to_best:.4f} (95 %)."

    @property
    def _sure(self) -> str:
        if self.confidence is Confidence.ONE_SEED:
            return "One seed: this is about that one network."
        if self.confidence is Confidence.CLEAR:
            return f"All {self.of - 1} others are told to be worse (5 %, Holm)."
        return ""

    @property
    def _otherwise(self) -> str:
        other = self.alternative
        if other is None:
            return ""
        more = other.loss - self.loss
        return (
            f"The best row that takes nothing from the mini-batch is {other.name}: its mean loss is {abs(more):.4f} "
            f"{'higher' if more >= 0 else 'lower'}, its accuracy {other.accuracy:.1%} where this one has "
            f"{self.accuracy:.1%}."
        )


def _named(row: Recommendation | Alternative) -> str:
    return " ".join(part for part in (row.arm, row.configuration, row.estimate) if part)


def computed_statistics(configuration: InferenceConfiguration) -> int:
    """How many statistics are computed from the mini-batch at hand."""
    return list(configuration.sources.values()).count(Source.MINI_BATCH)


def recommend(
    comparison: Comparison,
    at_sizes: Mapping[int, Mapping[Candidate, Losses]],
    *,
    per_slot: bool = False,
    as_is: Candidate | None = None,
) -> Recommendation:
    """Of the rows near the best one (`near_best`) the deterministic and cheapest, among those that of lowest mean loss.

    at_sizes: losses by seed of every row at other inference mini-batch sizes, on the same split or another on which
    nothing was chosen; keys name the row with that size. per_slot: the population has a value for each place in the
    mini-batch, so that an answer that reads it depends on the place. as_is: a row that is kept unless the other one is
    significantly better.
    """
    group = comparison.sharing_first
    near = near_best(comparison)
    chosen = min(near, key=lambda row: _preference(row, per_slot=per_slot))
    chosen, baseline = _unless_as_is(comparison, chosen, as_is)
    best = comparison.rows[0]
    pair = None if chosen == best else comparison.pair(0, comparison.rows.index(chosen))
    clear = len(group) == 1 and not comparison.left_out and not comparison.too_varied
    free = is_deterministic(chosen, per_slot=per_slot)
    return Recommendation(
        arm=chosen.arm,
        point=chosen.point,
        configuration=chosen.configuration,
        estimate=chosen.estimate,
        batch_size=chosen.batch_size,
        deterministic=free,
        computed=computed_statistics(InferenceConfiguration(chosen.configuration)),
        batch_sizes=None if free else sizes_near_best(chosen, at_sizes, comparison.seeds),
        sharing=len(group),
        near=len(near),
        of=len(comparison.rows),
        first_share=chosen.first_share,
        loss=chosen.loss,
        accuracy=chosen.accuracy,
        loss_above_best=0.0 if pair is None else -pair.loss.mean,
        loss_to_best=0.0 if pair is None else -pair.loss.low,
        alternative=None if free else _alternative(comparison, per_slot=per_slot),
        confidence=Confidence.ONE_SEED if comparison.seeds == 1 else (Confidence.CLEAR if clear else Confidence.SHARED),
        baseline=baseline,
    )


def _unless_as_is(
    comparison: Comparison, chosen: ComparedRow, as_is: Candidate | None
) -> tuple[ComparedRow, Baseline | None]:
    """The row of the network as it is where the chosen one is not significantly better, and how the two compare."""
    own = next((row for row in comparison.rows if row.candidate == as_is), None)
    if own is None:
        return chosen, None
    first, second = comparison.rows.index(chosen), comparison.rows.index(own)
    pair = comparison.pair(first, second) if first < second else None
    above = [comparison.pair(place, second) for place in range(second)]
    better = sum(one is not None and one.apart for one in above)
    if pair is None or not pair.apart:
        kept = Baseline(configuration=own.configuration, estimate=own.estimate, gain=0, low=0, high=0)
        return own, kept.model_copy(update={"significantly_better": better})
    gain = Baseline(
        configuration=own.configuration,
        estimate=own.estimate,
        gain=-pair.loss.mean,
        low=-pair.loss.high,
        high=-pair.loss.low,
        significantly_better=better,
    )
    return chosen, gain


def is_deterministic(row: ComparedRow, *, per_slot: bool) -> bool:
    """Does neither another example nor the place in the mini-batch have a say in an answer?"""
    configuration = InferenceConfiguration(row.configuration)
    placed = per_slot and any(configuration.source(one) is Source.POPULATION for one in FEATURE_STATISTICS)
    return configuration.deterministic and not placed


def _alternative(comparison: Comparison, *, per_slot: bool) -> Alternative | None:
    row = next((one for one in comparison.rows if is_deterministic(one, per_slot=per_slot)), None)
    if row is None:
        return None
    return Alternative(
        arm=row.arm,
        point=row.point,
        configuration=row.configuration,
        estimate=row.estimate,
        loss=row.loss,
        accuracy=row.accuracy,
    )


def _preference(row: ComparedRow, *, per_slot: bool) -> tuple[bool, int, float, str]:
    computed = computed_statistics(InferenceConfiguration(row.configuration))
    return not is_deterministic(row, per_slot=per_slot), computed, row.loss, row.configuration
