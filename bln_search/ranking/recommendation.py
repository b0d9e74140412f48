"""One row to use, and how far it can be relied on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from bln_search.core.configuration import InferenceConfiguration, Source
from bln_search.core.words import PopulationEstimate
from bln_search.ranking.comparison import ComparedRow, Comparison
from bln_search.ranking.groups import Losses
from bln_search.ranking.interval import ALPHA, paired_p
from bln_search.ranking.kept import Kept
from bln_search.ranking.leaderboard import Candidate


class Confidence(StrEnum):
    """clear: told from every other row. shared: some cannot be told from it. one_seed: nothing is known of others."""

    CLEAR = "clear"
    SHARED = "shared"
    ONE_SEED = "one_seed"


class Recommendation(Kept):
    """The row to use.

    deterministic: no other example has a say in an answer. computed: statistics computed at inference. batch_sizes:
    that at which it was ranked, and others at which seeds do not tell it from the best row; None where every size gives
    the same answers. sharing: rows of the first group. first_share: how often it comes first when seeds and examples
    are drawn anew. loss_to_best: upper end of the 95 % interval of its mean loss less that of the best row, 0 for the
    best row itself.
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
    of: int
    first_share: float
    loss_to_best: float
    confidence: Confidence

    @property
    def candidate(self) -> Candidate:
        """Its key in a table."""
        return self.arm, self.point, InferenceConfiguration(self.configuration), self.estimate, self.batch_size

    @property
    def words(self) -> str:
        """In a few sentences."""
        name = " ".join(part for part in (self.arm, self.configuration, self.estimate) if part)
        return " ".join(said for said in (f"Use {name}.", self._why, self._sizes, self._sure) if said)

    @property
    def _why(self) -> str:
        if self.sharing == 1:
            return "It is the best row."
        group = f"Of the {self.sharing} rows that share the first place"
        if self.deterministic:
            return f"{group} it is the cheapest that takes nothing from the mini-batch."
        return f"{group} it is the cheapest (none of them is deterministic)."

    @property
    def _sizes(self) -> str:
        if self.batch_sizes is None:
            return "" if self.sharing > 1 else "It takes nothing from the mini-batch."
        sizes = ", ".join(str(size) for size in self.batch_sizes)
        return (
            f"Its answers depend on the mini-batch: it is not told to be worse than others in mini-batches of {sizes}."
        )

    @property
    def _sure(self) -> str:
        if self.confidence is Confidence.ONE_SEED:
            return "One seed: this is about that one network."
        if self.confidence is Confidence.CLEAR:
            return f"All {self.of - 1} others are told to be worse (5 %, Holm)."
        if self.loss_to_best == 0:
            return (
                f"It has the lowest mean loss, and the lowest in {self.first_share:.0%} of draws of seeds and examples."
            )
        return f"At most {self.loss_to_best:.4f} of loss is given away to the best row (95 %)."


def computed_statistics(configuration: InferenceConfiguration) -> int:
    """How many statistics are computed from the mini-batch at hand."""
    return list(configuration.sources.values()).count(Source.MINI_BATCH)


def recommend(comparison: Comparison, at_sizes: Mapping[int, Mapping[Candidate, Losses]]) -> Recommendation:
    """Of the first group the deterministic and cheapest row, among those the one of lowest mean loss.

    at_sizes: losses by seed of every row at other inference mini-batch sizes, on the same split or another on which
    nothing was chosen; keys name the row with that size.
    """
    group = comparison.sharing_first
    chosen = min(group, key=_preference)
    configuration = InferenceConfiguration(chosen.configuration)
    best = comparison.rows[0]
    pair = None if chosen == best else comparison.pair(0, comparison.rows.index(chosen))
    clear = len(group) == 1 and not comparison.left_out and not comparison.too_varied
    return Recommendation(
        arm=chosen.arm,
        point=chosen.point,
        configuration=chosen.configuration,
        estimate=chosen.estimate,
        batch_size=chosen.batch_size,
        deterministic=configuration.deterministic,
        computed=computed_statistics(configuration),
        batch_sizes=None if configuration.deterministic else _valid_sizes(chosen, at_sizes),
        sharing=len(group),
        of=len(comparison.rows),
        first_share=chosen.first_share,
        loss_to_best=0.0 if pair is None else -pair.loss.low,
        confidence=Confidence.ONE_SEED if comparison.seeds == 1 else (Confidence.CLEAR if clear else Confidence.SHARED),
    )


def _preference(row: ComparedRow) -> tuple[bool, int, float, str]:
    configuration = InferenceConfiguration(row.configuration)
    return not configuration.deterministic, computed_statistics(configuration), row.loss, row.configuration


def _valid_sizes(row: ComparedRow, at_sizes: Mapping[int, Mapping[Candidate, Losses]]) -> tuple[int, ...]:
    """The size it was ranked at, and others at which seeds do not tell it from the best row there."""
    sizes = {row.batch_size}
    arm, point, configuration, estimate, _ = row.candidate
    for size, losses in at_sizes.items():
        own = losses.get((arm, point, configuration, estimate, size))
        if own is not None and _holds(own, list(losses.values())):
            sizes.add(size)
    return tuple(sorted(sizes))


def _holds(own: Losses, others: Sequence[Losses]) -> bool:
    """Is it the row of lowest mean loss, or not told from that by its seeds? False where seeds can tell nothing."""
    best = min(others, key=lambda one: sum(one.values()) / len(one))
    if best is own:
        return True
    if best.keys() != own.keys():
        return False
    p = paired_p([own[seed] - best[seed] for seed in sorted(own)])
    return p is not None and p >= ALPHA
