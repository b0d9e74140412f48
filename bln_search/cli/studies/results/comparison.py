"""Command `compare`: compare studies row by row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from bln_search.cli import options
from bln_search.cli.completion import complete_study_name
from bln_search.cli.output import RecordsFormat, print_note, results
from bln_search.cli.records import Record, print_records
from bln_search.cli.sources.opening import open_study_source
from bln_search.cli.sources.studies import StudySource
from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.ranking.grouping import LossBySeed
from bln_search.ranking.selection.cross_study import (
    SharedRow,
    loss_difference_between_studies,
    match_rows_between_studies,
)
from bln_search.ranking.statistics.intervals import ConfidenceInterval, mean_with_t_interval
from bln_search.reports.export import row_key_fields
from bln_search.reports.terminal.comparison import recommended_rows_table, shared_rows_table
from bln_search.specs.records import StudyRecord

_MAX_STUDIES = 6
_TABLE_ROWS = 20
_COLUMNS = (
    *("arm", "parameters", "configuration", "population", "batch_size", "study", "name", "recommended"),
    *("loss", "loss_half", "difference", "difference_half"),
)

StudiesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="STUDY STUDY...",
        help="Two to six names or numbers of studies.",
        show_default=False,
        autocompletion=complete_study_name,
    ),
]


@dataclass(frozen=True)
class ComparedStudy:
    """A study of a comparison.

    Attributes:
        study: The study.
        losses: Losses by seed of every row.
        recommended: The recommended row; None without an analysis.
    """

    study: StudyRecord
    losses: dict[RowKey, LossBySeed]
    recommended: RowKey | None

    @property
    def number_and_name(self) -> str:
        """Number and name."""
        return f"{self.study.id}: {self.study.name}"

    @property
    def recommended_row_losses_by_seed(self) -> LossBySeed | None:
        """Losses of the recommended row by seed; None without one."""
        return None if self.recommended is None else self.losses.get(self.recommended)


def compare(
    studies: StudiesArgument,
    database: options.DatabaseOption = None,
    server: options.ServerOption = None,
    token: options.TokenOption = None,
    split: Annotated[
        options.ValidationOrTestSplit, typer.Option("--split", help="Split of the losses.")
    ] = options.ValidationOrTestSplit.VALIDATION,
    limit: options.LimitOption = None,
    output_format: options.FormatOption = RecordsFormat.TABLE,
) -> None:
    """Compare studies: their recommended rows, and the losses of every row that two of them have.

    Differences are to the first study, with 95 % intervals over seeds: paired by seed where both studies have the same
    seeds, otherwise Welch's.
    """
    with open_study_source(database, server, token) as source:
        compared = _read_compared_studies(source, studies, Split(split))
    _warn_about_different_data([study.study for study in compared])
    most = _TABLE_ROWS if limit is None and output_format is RecordsFormat.TABLE else limit
    rows, found = match_rows_between_studies([study.losses for study in compared], most)
    if output_format is RecordsFormat.TABLE:
        _print_comparison_tables(compared, rows, found, split)
    elif output_format is RecordsFormat.JSON:
        typer.echo(json.dumps(_comparison_to_json_document(compared, rows, found, split), indent=1))
    else:
        print_records(_list_comparison_records(compared, rows), _COLUMNS, output_format)


def _read_compared_studies(source: StudySource, names: Sequence[str], split: Split) -> list[ComparedStudy]:
    """Return the studies in the order of their names. Raises BadParameter unless there are two to six."""
    studies = {study.id: study for study in (source.get_study(name) for name in names)}
    if not 2 <= len(studies) <= _MAX_STUDIES:
        raise typer.BadParameter(f"choose 2 to {_MAX_STUDIES} different studies", param_hint="STUDY")
    compared = []
    for study in studies.values():
        analysis = source.find_or_compute_analysis(study)
        recommendation = None if analysis is None else analysis.recommendation
        recommended = None if recommendation is None else recommendation.key
        compared.append(ComparedStudy(study, source.get_losses_by_row(study, split), recommended))
    return compared


def _warn_about_different_data(studies: Sequence[StudyRecord]) -> None:
    """Print a warning for every study whose data differ from those of the first one."""
    first, *others = studies
    for study in others:
        differing = [
            name
            for name, value in study.spec.data.model_dump().items()
            if value != first.spec.data.model_dump().get(name)
        ]
        if differing:
            print_note(
                f"warning: studies {first.id} and {study.id} differ in data ({', '.join(differing)}): their losses "
                "are not those of the same examples",
            )


def _print_comparison_tables(
    compared: Sequence[ComparedStudy], rows: Sequence[SharedRow], found: int, split: str
) -> None:
    labels = [study.number_and_name for study in compared]
    losses = [study.recommended_row_losses_by_seed for study in compared]
    score = "; ".join(dict.fromkeys(study.study.spec.loss_description.text for study in compared))
    results.print(
        recommended_rows_table(
            labels,
            [study.study.state for study in compared],
            [study.recommended for study in compared],
            [_find_loss_interval(loss) for loss in losses],
            [_find_difference_interval(loss, losses[0]) if position else None for position, loss in enumerate(losses)],
            split,
            score,
        )
    )
    if not rows:
        results.print("These studies have no row in common that is measured in two of them.")
        return
    results.print(shared_rows_table(labels, rows, split, score))
    if found > len(rows):
        results.print(f"{len(rows)} of {found} shared rows; --limit prints more")


def _find_loss_interval(losses: LossBySeed | None) -> ConfidenceInterval | None:
    return mean_with_t_interval(list(losses.values())) if losses else None


def _find_difference_interval(losses: LossBySeed | None, first: LossBySeed | None) -> ConfidenceInterval | None:
    return loss_difference_between_studies(losses, first) if losses and first else None


def _comparison_to_json_document(
    compared: Sequence[ComparedStudy], rows: Sequence[SharedRow], found: int, split: str
) -> dict[str, object]:
    first = compared[0].recommended_row_losses_by_seed
    return {
        "split": split,
        "studies": [
            {
                "id": study.study.id,
                "name": study.study.name,
                "state": study.study.state,
                "recommended": None
                if study.recommended is None
                else {
                    **row_key_fields(study.recommended),
                    **_mean_and_half_width_fields("loss", _find_loss_interval(study.recommended_row_losses_by_seed)),
                    **_mean_and_half_width_fields(
                        "difference",
                        _find_difference_interval(study.recommended_row_losses_by_seed, first) if position else None,
                    ),
                },
            }
            for position, study in enumerate(compared)
        ],
        "shared_rows": found,
        "rows": _list_comparison_records(compared, rows),
    }


def _list_comparison_records(compared: Sequence[ComparedStudy], rows: Sequence[SharedRow]) -> list[Record]:
    """Return a record for each row and each study that has it."""
    return [
        {
            **row_key_fields(row.key),
            "study": study.study.id,
            "name": study.study.name,
            "recommended": row.key == study.recommended,
            **_mean_and_half_width_fields("loss", loss),
            **_mean_and_half_width_fields("difference", difference),
        }
        for row in rows
        for study, loss, difference in zip(compared, row.losses, row.differences, strict=True)
        if loss is not None
    ]


def _mean_and_half_width_fields(name: str, interval: ConfidenceInterval | None) -> dict[str, object]:
    """Return mean and half-width of a 95 % interval under the names `name` and `name_half`."""
    return {
        name: None if interval is None else interval.mean,
        f"{name}_half": None if interval is None else interval.half,
    }
