"""What is known about a network beside its baseline, in each condition."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bln_search.core.names import format_count_with_noun
from bln_search.ranking.paired.non_inferiority import MIN_UNITS, NotWorseVerdict
from bln_search.reports.formatting import format_signed

_LARGEST_DECIMALS = 8


@dataclass(frozen=True)
class ComparedCondition:
    """A network beside its baseline on the same examples.

    Attributes:
        name: Name of the condition; `loader` for the loader without a name.
        verdict: What is known (95 %).
        model: Mean loss or accuracy of the network; NaN or infinite where a loss is.
        baseline: That of the baseline.
        difference: `model` minus `baseline`.
        low: Lower 95 % confidence bound of the difference.
        high: Upper 95 % confidence bound of the difference.
        p_not_worse: p value of a network that is worse by the margin or more; below 5 % where it is not worse.
        p_worse: p value of a network that is worse by the margin at most, corrected over the conditions; below 5 %
            where it is worse.
        margin: Difference from which on the network is worse.
        examples: Number of examples.
        mini_batches: Number of mini-batches, if these were compared instead of examples; otherwise None.
        are_identical: Whether the outputs of both are identical for all examples, bit by bit.
        not_finite: Number of examples for which the loss of the network is not finite.
        required: About how many examples would decide; None where it is decided, and where no number would.
    """

    name: str
    verdict: NotWorseVerdict
    model: float
    baseline: float
    difference: float
    low: float
    high: float
    p_not_worse: float
    p_worse: float
    margin: float
    examples: int
    mini_batches: int | None
    are_identical: bool
    not_finite: int
    required: int | None


@dataclass(frozen=True)
class NotWorseReport:
    """A network beside its baseline in all conditions; printing it prints one line for each.

    Attributes:
        conditions: The conditions, in their order.
        metric: `loss` or `accuracy`.
        metric_name: Name of the loss or metric.
        unit: Its unit; empty if there is none.
    """

    conditions: tuple[ComparedCondition, ...]
    metric: str
    metric_name: str
    unit: str

    @property
    def verdict(self) -> NotWorseVerdict:
        """Worse if it is so in any condition, not worse if it is so in all of them."""
        verdicts = {each.verdict for each in self.conditions}
        if len(verdicts) == 1:
            return verdicts.pop()
        return NotWorseVerdict.WORSE if NotWorseVerdict.WORSE in verdicts else NotWorseVerdict.CANNOT_TELL

    @property
    def nearest(self) -> ComparedCondition:
        """The condition that decides the verdict."""
        order = (NotWorseVerdict.WORSE, NotWorseVerdict.CANNOT_TELL, NotWorseVerdict.NOT_WORSE)
        return max(self.conditions, key=lambda each: (-order.index(each.verdict), each.p_not_worse))

    @property
    def headline(self) -> str:
        """The verdict in one sentence without a full stop."""
        count, total = sum(each.verdict is self.verdict for each in self.conditions), len(self.conditions)
        scope = "" if total == 1 else f" in {count} of {total} conditions"
        match self.verdict:
            case NotWorseVerdict.NOT_WORSE:
                return f"the model is not worse than the baseline{scope}"
            case NotWorseVerdict.WORSE:
                return f"the model is worse than the baseline by more than the margin{scope}"
            case NotWorseVerdict.CANNOT_TELL:
                return f"there are too few examples to tell whether the model is worse than the baseline{scope}"

    @property
    def summary(self) -> str:
        """Verdict, and the figures of the condition that decides it, in one line."""
        where = "" if len(self.conditions) == 1 else f" in {self.nearest.name}"
        return f"{self.verdict}: {self._difference_text(self.nearest)}{where}"

    def to_properties(self) -> dict[str, str | float]:
        """Names and values for a report of tests: those of a condition begin with its name."""
        properties: dict[str, str | float] = {"verdict": self.verdict.value, "metric": self.metric_name}
        for each in self.conditions:
            properties |= {
                f"{each.name}.{name}": value.value if isinstance(value, NotWorseVerdict) else value
                for name, value in vars(each).items()
                if name != "name" and value is not None
            }
        return properties

    def __str__(self) -> str:
        """The verdict, one line for each condition, and what the numbers mean."""
        unit = f" in {self.unit}" if self.unit else ""
        lines = [
            f"{self.headline}:",
            *(f"  {self._condition_text(each)}" for each in self.conditions),
            f"Difference: {self.metric_name} of the model minus that of the baseline{unit}, on the same examples, with "
            "lower and upper 95 % bounds.",
            self._p_text,
        ]
        if any(each.mini_batches is not None for each in self.conditions):
            lines.append("Mini-batches are compared, not examples, because outputs depend on the mini-batch.")
        return "\n".join(lines)

    @property
    def _p_text(self) -> str:
        text = "p: of a model that is worse by the margin or more"
        if self.verdict is not NotWorseVerdict.WORSE:
            return f"{text}."
        corrected = f", corrected for {len(self.conditions)} conditions" if len(self.conditions) > 1 else ""
        return f"{text}; in lines with WORSE, of one that is not{corrected}."

    def _condition_text(self, each: ComparedCondition) -> str:
        is_worse = each.verdict is NotWorseVerdict.WORSE
        verdict = each.verdict.upper() if is_worse else each.verdict
        p = each.p_worse if is_worse else each.p_not_worse
        facts = [] if each.are_identical or each.not_finite else [f"p {f'= {p:.2g}' if p >= 0.001 else '< 0.001'}"]
        means = (self._mean_text(mean, each) for mean in (each.model, each.baseline))
        facts.append(f"{self.metric_name} {' against '.join(means)}")
        facts.append(format_count_with_noun(each.examples, "example", "examples"))
        if each.mini_batches is not None:
            facts.append(format_count_with_noun(each.mini_batches, "mini-batch", "mini-batches"))
        return f"{each.name}: {verdict}, {self._difference_text(each)}; {', '.join(facts)}{self._required_text(each)}"

    def _mean_text(self, mean: float, each: ComparedCondition) -> str:
        factor, digits = self._factor_and_decimals(each)
        return f"{mean * factor:.{digits}f}{' %' if self.metric == 'accuracy' else ''}"

    def _difference_text(self, each: ComparedCondition) -> str:
        if each.are_identical:
            return "identical outputs"
        if each.not_finite:
            return f"loss of the model not finite for {format_count_with_noun(each.not_finite, 'example', 'examples')}"
        factor, digits = self._factor_and_decimals(each)
        mean, low, high = (format_signed(x * factor, digits) for x in (each.difference, each.low, each.high))
        return f"difference {mean} [{low}, {high}], margin {each.margin * factor:g}"

    def _required_text(self, each: ComparedCondition) -> str:
        if each.verdict is not NotWorseVerdict.CANNOT_TELL:
            return ""
        few, kind = (each.examples, "examples") if each.mini_batches is None else (each.mini_batches, "mini-batches")
        least = f" (at least {MIN_UNITS} {kind} are needed)" if few < MIN_UNITS else ""
        if each.required is None:
            return f"; even a thousand times as many would not decide: the difference is near the margin{least}"
        return f"; about {each.required:,} examples would decide{least}"

    def _factor_and_decimals(self, each: ComparedCondition) -> tuple[float, int]:
        """Accuracies in per cent; two significant digits of the bounds' width, within two decimals of the margin's."""
        factor = 100.0 if self.metric == "accuracy" else 1.0
        width, margin = (each.high - each.low) / 2 * factor, each.margin * factor
        decimals = 1 - math.floor(math.log10(width)) if 0 < width < math.inf else None
        if margin > 0:
            least = -math.floor(math.log10(margin))
            decimals = least + 2 if decimals is None else min(max(decimals, least), least + 2)
        return factor, min(_LARGEST_DECIMALS, max(0, 4 if decimals is None else decimals))
