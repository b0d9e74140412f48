"""Command `plan`: how many seeds would decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bln_search.cli import options
from bln_search.cli.output import RecordsFormat, make_progress_line_printer, print_line, print_records_table
from bln_search.cli.records import Record, print_records
from bln_search.cli.sources.opening import get_study_to_change, open_database_ignoring_service
from bln_search.cli.studies.results.leaderboard import format_study_name_and_title
from bln_search.core.names import format_count_with_noun
from bln_search.ranking.comparison import MAX_REQUIRED_SEEDS, POWER
from bln_search.reports.sentences.significance import format_margin
from bln_search.settings import load_settings

if TYPE_CHECKING:
    from bln_search.worker.analysis import StudySeedPlan

_COLUMNS = (
    *("arm", "configuration", "population", "difference", "deviation"),
    *("error_of_examples", "seeds_worse", "seeds_equal"),
)
_HEADINGS = ("arm", "configuration", "difference", "deviation", "error of examples", "seeds: worse", "seeds: equal")


def plan(
    study: options.StudyArgument,
    effect: Annotated[
        float | None,
        typer.Option(
            "--effect", min=1e-12, metavar="LOSS", help="Difference of losses to find; by default the study's margin."
        ),
    ] = None,
    power: Annotated[
        float, typer.Option("--power", min=0.05, max=0.99, metavar="SHARE", help="Share of studies that should decide.")
    ] = POWER,
    database: options.DatabaseOption = None,
    output_format: options.FormatOption = RecordsFormat.TABLE,
    quiet: options.QuietOption = False,
) -> None:
    """Print how many seeds would decide between the arms of a study, by simulation from its results so far.

    Two seeds or more are required. Of a study with one arm, the rows are compared that are not practically equal to the
    best one already.
    """
    from bln_search.worker.analysis import plan_seeds_of_study

    print_progress = make_progress_line_printer(quiet=quiet)
    with open_database_ignoring_service(database, load_settings()) as ledger:
        record = get_study_to_change(ledger, study)
        planned = plan_seeds_of_study(
            ledger,
            record,
            effect=effect,
            power=power,
            on_progress=lambda seeds: print_progress(f"drawing studies of {seeds} seeds"),
        )
    records = _list_records(planned)
    if output_format is not RecordsFormat.TABLE:
        print_records(records, _COLUMNS, output_format)
        return
    if not records:
        print_line("Every row is practically equal to the best one: no further seeds are required.")
        return
    print_records_table(
        [_format_record(line) for line in records], _HEADINGS, format_study_name_and_title(record), ("configuration",)
    )
    for line in _sentences(planned):
        print_line(line)


def _list_records(planned: StudySeedPlan) -> list[Record]:
    return [
        {
            "arm": planned.rows[group.row].arm,
            "configuration": str(planned.rows[group.row].configuration),
            "population": planned.rows[group.row].estimate,
            "difference": group.difference,
            "deviation": group.of_seeds,
            "error_of_examples": group.of_examples,
            "seeds_worse": group.worse,
            "seeds_equal": group.equal,
        }
        for group in planned.plan.groups
    ]


def _format_record(record: Record) -> Record:
    population = f" ({record['population']})" if record["population"] else ""
    values = record["difference"], record["deviation"], record["error_of_examples"]
    seeds = (
        record[name] if record[name] is not None else f"> {MAX_REQUIRED_SEEDS}"
        for name in ("seeds_worse", "seeds_equal")
    )
    cells = (
        record["arm"],
        f"{record['configuration']}{population}",
        *(f"{float(str(value)):.4f}" for value in values),
        *seeds,
    )
    return dict(zip(_HEADINGS, cells, strict=True))


def _sentences(planned: StudySeedPlan) -> list[str]:
    """What the columns mean, and on what the numbers rest."""
    plan, best = planned.plan, planned.rows[planned.plan.best_row]
    share = f"{plan.power:.0%} of {plan.studies} simulated studies"
    return [
        f"Difference: to the best row, {best.arm_configuration_and_estimate_label}, in the results so far.",
        "Deviation: standard deviation of this difference between seeds. Error of examples: the standard error that "
        "more seeds do not reduce.",
        f"Seeds, worse: with them {share} find the row significantly worse if its true difference is "
        f"{format_margin(plan.effect)}.",
        f"Seeds, equal: with them as many find it practically equal (within {format_margin(plan.margin)}) if there is "
        "no true difference.",
        f"The simulated studies vary as {format_count_with_noun(plan.seeds, 'seed', 'seeds')} of {planned.examples:,} "
        f"examples do, and all {plan.rows} distinct rows are compared together.",
    ]
