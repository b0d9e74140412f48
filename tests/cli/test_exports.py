"""The row that `bln-search export` selects, and the interruption of a command."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import typer

from bln_search.cli import main
from bln_search.cli.studies.results import export, verification
from bln_search.cli.studies.results.export import RowOptions, choose_exported_row
from bln_search.core.class_prior import ClassPriorBaseline
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.errors import ExportError, MissingPackageError
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.records import Evaluation, EvaluationKey
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.leaderboard import build_leaderboard_from_evaluations
from bln_search.ranking.row_results import TrialEvaluation
from bln_search.ranking.selection.baseline_check import ArmsNoBetterThanPrior
from bln_search.ranking.selection.recommendation import recommend_row
from tests.ranking.comparisons import compared

FROZEN, EPOCH = PopulationEstimate.FROZEN, PopulationEstimate.EPOCH


def scored(code, estimate, loss, *, arm="bln", batch_size=25, point="", undefined=None):
    key = EvaluationKey(InferenceConfiguration(code), estimate, batch_size, Split.VALIDATION)
    if undefined:
        return TrialEvaluation(arm, 0, Evaluation.make_undefined(key, undefined), point)
    outcomes = ExampleOutcomes(np.full(4, loss, np.float32), np.ones(4, np.bool_))
    return TrialEvaluation(arm, 0, Evaluation.from_outcomes(key, outcomes), point)


BOARD = build_leaderboard_from_evaluations(
    [
        scored("FFFF", None, 0.5),
        scored("TTTT", FROZEN, 0.25),
        scored("TTTT", EPOCH, 0.75),
        scored("TTTT", FROZEN, 0.3, batch_size=1, undefined="m/(m-1) has no value"),
        scored("TT--", FROZEN, 1.0, arm="bn", point='{"training.learning_rate": 0.1}'),
        scored("TT--", FROZEN, 2.0, arm="bn", point='{"training.learning_rate": 0.2}'),
    ]
)


def choose_row(board, config, estimate=None, arm=None, batch_size=None, parameters=None):
    return choose_exported_row(None, None, board, RowOptions(config, estimate, arm, batch_size, parameters, None))


def test_best_is_the_first_row_of_the_selection():
    assert choose_row(BOARD, "best") is BOARD.rows[0]
    assert str(choose_row(BOARD, "best").configuration) == "TTTT"
    assert choose_row(BOARD, "best", estimate=EPOCH).estimate is EPOCH
    assert choose_row(BOARD, "best", arm="bn").parameters == "learning_rate=0.1"


def test_label_of_a_blend_selects_its_row():
    labels = ("frozen@0.1", "frozen@N16")
    board = build_leaderboard_from_evaluations(
        [scored("BBFF", label, 0.5 + place) for place, label in enumerate(labels)]
    )
    assert choose_row(board, "BBFF", estimate="frozen@N16").metrics[Split.VALIDATION].loss.mean == 1.5
    with pytest.raises(ExportError, match="2 rows are BBFF") as error:
        choose_row(board, "BBFF")
    assert "  --config BBFF --estimate frozen@0.1 --arm bln --batch-size 25" in str(error.value).splitlines()
    with pytest.raises(ExportError, match="no such row"):
        choose_row(board, "BBFF", estimate="frozen@0.5")


def test_code_with_filters_selects_one_row():
    assert choose_row(BOARD, "FFFF").estimate is None
    assert choose_row(BOARD, "TTTT", estimate=EPOCH).metrics[Split.VALIDATION].loss.mean == 0.75
    chosen = choose_row(BOARD, "TT--", parameters="learning_rate=0.2")
    assert chosen.metrics[Split.VALIDATION].loss.mean == 2.0


@pytest.mark.parametrize(
    ("selection", "lines"),
    [
        (
            {"config": "TTTT"},
            [
                "2 rows are TTTT; choose with --estimate, --arm, --batch-size or --parameters:",
                "  --config TTTT --estimate frozen --arm bln --batch-size 25",
                "  --config TTTT --estimate epoch --arm bln --batch-size 25",
            ],
        ),
        (
            {"config": "FFFF", "batch_size": 7},
            ["the leaderboard has no such row; there are:", "  --config FFFF --arm bln --batch-size 25"],
        ),
        ({"config": "FFFF", "arm": "foo"}, ["the study has no arm 'foo'; choose one of bln, bn"]),
        (
            {"config": "TTTT", "batch_size": 1},
            ["this row is undefined, so it cannot be exported: m/(m-1) has no value"],
        ),
    ],
)
def test_no_row_or_several_rows_is_one_error_with_a_list(selection, lines):
    with pytest.raises(ExportError) as error:
        choose_row(BOARD, **selection)
    assert str(error.value).splitlines() == lines


def test_unknown_code_and_study_without_results_are_rejected():
    with pytest.raises(typer.BadParameter, match=r"'TTX' is not an inference configuration.*or write best"):
        choose_row(BOARD, "TTX")
    with pytest.raises(ExportError, match="no result yet"):
        choose_row(build_leaderboard_from_evaluations([]), "best")


@pytest.mark.parametrize("arms", [("bln",), ("bn",)])
def test_recommended_row_of_an_arm_no_better_than_the_class_frequencies_has_a_warning(arms, monkeypatch, capsys):
    check = ArmsNoBetterThanPrior(
        arms=arms, all_arms=False, split=Split.VALIDATION, loss=1, accuracy=0.1, baseline=ClassPriorBaseline(0.9, 0.2)
    )
    recommendation = recommend_row(compared("TTTT", "FFFF"), {})
    analysis = Analysis(recommendation=recommendation, no_better_than_class_prior=check)
    monkeypatch.setattr(export.LedgerSource, "find_or_compute_analysis", lambda *_, **__: analysis)
    assert choose_row(BOARD, "recommended").key == recommendation.key
    assert ("the lowest validation loss is 1.0000" in capsys.readouterr().err) == (arms == ("bln",))


@pytest.mark.parametrize(
    ("room", "arguments"), [(export, ["export", "small", "--output", "out"]), (verification, ["verify", "small"])]
)
def test_interrupt_reports_that_nothing_was_written(room, arguments, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(room, "open_database_ignoring_service", interrupted)
    monkeypatch.setattr(sys, "argv", ["bln-search", *arguments])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert end.value.code == 130
    assert capsys.readouterr().err.split() == ["interrupted;", "nothing", "was", "written"]


def test_export_without_onnx_names_the_forms_that_need_no_package(world, invoke, tmp_path, monkeypatch):
    world.complete("done")
    monkeypatch.setattr("bln_search.cli.extras.find_spec", lambda name: None if name == "onnxscript" else object())
    result = invoke("export", "done", "--output", tmp_path / "out")
    assert isinstance(result.exception, MissingPackageError)
    assert "--forms torch_export" in str(result.exception)
    other = invoke("export", "done", "--output", tmp_path / "out", "--forms", "torch_export")
    assert not isinstance(other.exception, MissingPackageError)


@pytest.mark.parametrize("option", [("--arm", "bln"), ("--estimate", "frozen"), ("--batch-size", "25")])
def test_options_that_describe_a_row_need_a_configuration(option, world, invoke, tmp_path):
    world.complete("done")
    assert invoke("export", "done", "--output", tmp_path / "out", *option).exit_code == 2
    assert not (tmp_path / "out").exists()
