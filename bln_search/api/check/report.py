"""The report of a check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bln_search.api.ranked.result_table import Record, ResultTable
from bln_search.api.ranked.table import RankedConfigurations
from bln_search.core.files.atomic import write_atomically
from bln_search.ranking.network_check import CheckVerdict, Finding, NetworkCheck, Variant
from bln_search.reports.check.model_card import render_check_model_card
from bln_search.reports.check.notebook import make_check_blocks
from bln_search.reports.check.page import render_check_html
from bln_search.reports.check.sentences import (
    calibration_sentence,
    condition_sentence,
    dependence_sentence,
    finding_lines,
    mode_sentences,
    verdict_sentence,
)
from bln_search.reports.check.table import make_variant_table
from bln_search.reports.page.blocks import Block
from bln_search.reports.tables.fitted_table import FittedTable


@dataclass(frozen=True, repr=False)
class CheckReport(ResultTable):
    """What a check found; `print(report)` shows the measured variants, verdict and findings.

    Attributes:
        check: The finished check, whose `model_dump_json()` other programs read.
        ranked: The variants that are configurations of BN as a ranked table, which is drawn, saved and submitted to a
            service like any other. It has no population values: `recalibrate` changes the network.
    """

    check: NetworkCheck
    ranked: RankedConfigurations

    @property
    def verdict(self) -> CheckVerdict:
        """What to do."""
        return self.check.verdict

    @property
    def chosen(self) -> Variant:
        """The variant to deploy."""
        return self.check.chosen

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Causes, the most probable one first; those without effect come last."""
        return self.check.findings

    def to_html(self, path: str | Path) -> None:
        """Write a self-contained HTML page, atomically."""
        write_atomically(Path(path), render_check_html(self.check).encode())

    def save(self, path: str | Path) -> None:
        """Write the finished check as JSON, atomically."""
        write_atomically(Path(path), self.check.model_dump_json(indent=1).encode())

    def model_card(self, *, name: str = "", data: str = "validation data", task: str = "image-classification") -> str:
        """Markdown for a model card of the Hugging Face Hub, with the front matter `model-index`.

        Args:
            name: Name of the model; by default the class of the network.
            data: Name of the validation data.
            task: Task type, as the Hub names it.
        """
        return render_check_model_card(self.check, name=name or self.check.network, data=data, task=task)

    def to_records(self) -> list[Record]:
        """One dictionary for each variant and mini-batch size."""
        records: list[Record] = []
        for row in self.check.variants:
            difference = row.difference
            records.append(
                {
                    "variant": str(row.variant),
                    "batch_size": row.batch_size,
                    "loss": row.loss,
                    "accuracy": row.accuracy,
                    "difference": None if difference is None else difference.mean,
                    "low": None if difference is None else difference.low,
                    "high": None if difference is None else difference.high,
                    "p": None if difference is None else difference.adjusted,
                    "is_candidate": row.is_candidate,
                }
            )
        return records

    def _make_notebook_blocks(self) -> list[Block]:
        return make_check_blocks(self.check)

    def _table_with_sentences(self) -> tuple[FittedTable, Sequence[str]]:
        findings = [line for number, each in enumerate(self.findings, start=1) for line in finding_lines(number, each)]
        dependence = [dependence_sentence(found) for found in self.check.dependence]
        conditions = [condition_sentence(condition) for condition in self.check.conditions]
        calibration = [] if self.check.calibration is None else [calibration_sentence(self.check.calibration)]
        lines = [
            *mode_sentences(self.check),
            verdict_sentence(self.check),
            *findings,
            *dependence,
            *conditions,
            *calibration,
        ]
        return make_variant_table(self.check), lines
