"""Rows of the table of benchmarks, from bench/results; `bench.documents.figures` writes them."""

from __future__ import annotations

from typing import Any

from bench.documents.answer_rows import answer_rows
from bench.documents.figure_row import Row, percent_text, spread_text
from bench.documents.gpu_rows import gpu_rows
from bench.support.reporting import read_result


def benchmark_rows() -> list[Row]:
    """Return the rows of all benchmarks with a result."""
    return [
        *_one_pass(),
        *_training(),
        *_orchestration(),
        *_service(),
        *_pages(),
        *_statistics(),
        *_recurrent(),
        *_time_estimate(),
        *_resume(),
        *gpu_rows(),
    ]


def _one_pass() -> list[Row]:
    saved, gpu = read_result("enumerate"), read_result("enumerate_gpu")
    assert saved is not None
    result, file = saved["result"], "enumerate"
    by_semantics = result["by_semantics"]
    what = (
        "Sixteen configurations in one pass against one after another, LeNet, CIFAR-10 shapes, mini-batches of "
        f"{result['batch_size']}, {result['examples']:,} examples, two threads (pairs: {result['pairs']})"
    )
    reading = f"LeNet, mini-batches of {result['batch_size']}, over one after another"
    cost = spread_text(by_semantics["reference"]["cost_in_single_evaluations"])
    float64_difference, float32_difference = (
        result["max_relative_difference_float64"],
        result["max_relative_difference"],
    )
    precision = "Largest relative difference of the losses, LeNet, MLP and a residual network"
    speed = {
        reading: f"{spread_text(by_semantics[reading]['speedup'])} times faster" for reading in ("reference", "paper")
    }
    on_gpu = "not measured"
    if gpu is not None:
        spread = spread_text(gpu["result"]["by_semantics"]["reference"]["speedup"])
        on_gpu = f"{spread} times faster ({gpu['provenance']['hardware']})"
    return [
        Row(f"{what}, reference reading", speed["reference"], file),
        Row(
            f"{what}, paper reading", speed["paper"], file, standalone=f"Sixteen configurations in one pass, {reading}"
        ),
        Row("The same in single evaluations (reference reading)", cost, file),
        *_with_kernels(result, file),
        Row(
            precision,
            f"{float64_difference:.0e} in double, {float32_difference:.0e} in single precision",
            file,
            standalone="Largest relative difference of their losses",
        ),
        Row("The same on a GPU", on_gpu, "" if gpu is None else "enumerate_gpu", standalone="The same on a GPU"),
    ]


def _with_kernels(result: dict[str, Any], file: str) -> list[Row]:
    """Return the rows of the one pass with compiled kernels, if they are measured."""
    if "with_kernels" not in result:
        return []
    kernels = result["with_kernels"]
    timing, first_use = kernels["by_semantics"], kernels["first_use"]
    return [
        Row(
            "The same with the extra `fast`, paper reading",
            f"{spread_text(timing['paper']['speedup'])} times faster",
            file,
        ),
        Row(
            "The same with the extra `fast` in single evaluations (reference reading)",
            spread_text(timing["reference"]["cost_in_single_evaluations"]),
            file,
        ),
        Row(
            "Largest relative difference of the losses with the extra `fast`",
            f"{kernels['max_relative_difference']:.0e} in single precision",
            file,
        ),
        Row(
            "First use of the kernels in a process: compiled once after an installation, then read from disk",
            f"{first_use['seconds_compiled']:.1f} s, then {first_use['seconds_from_disk']:.1f} s",
            file,
        ),
    ]


def _training() -> list[Row]:
    saved = read_result("training")
    assert saved is not None
    spread, what = saved["result"]["spread"], f"Training over a bare PyTorch loop (pairs: {saved['result']['pairs']})"
    return [
        Row(
            what, percent_text(spread["frozen"]), "training", standalone="Overhead of training over a bare PyTorch loop"
        ),
        Row("with the `epoch` estimate folded along the way", percent_text(spread["epoch"]), "training"),
    ]


def _orchestration() -> list[Row]:
    """Return the rows of the executors."""
    rows = []
    if (saved := read_result("orchestration")) is not None:
        result, file = saved["result"], "orchestration"
        what = f"{result['trials']} trials of a second, Ray Tune underneath, two cores (pairs: {result['pairs']})"
        rows += [
            Row(f"{what}: over the bare training, workers up", percent_text(result["overhead_spread"]), file),
            Row(
                "the same, every start and stop in it",
                percent_text(result["overhead_whole_spread"]),
                file,
                standalone=f"Overhead of {result['trials']} trials of a second with Ray Tune",
            ),
            Row("against plain Ray Tune", f"{spread_text(result['versus_ray_tune_spread'])} times faster", file),
        ]
    if (saved := read_result("versus_grid")) is not None:
        result, file = saved["result"], "versus_grid"
        what = (
            "Sixteen configurations × three seeds, the same table, against training each cell anew "
            f"(pairs: {result['pairs']})"
        )
        for other, name in (("Ray Tune `grid_search`", "ray_tune"), ("Optuna `GridSampler`", "optuna")):
            figure = f"{spread_text(result[f'versus_{name}_spread'])} times faster"
            rows.append(
                Row(
                    f"{what}: {other}",
                    figure,
                    file,
                    standalone=f"The ranked table of three seeds (pairs: {result['pairs']}), over {other}",
                )
            )
            if (fused := result.get(f"fused_versus_{name}_spread")) is not None:
                rows.append(Row("the same with `--executor fused`", f"{spread_text(fused)} times faster", file))
    if (saved := read_result("search")) is not None:
        result = saved["result"]
        what = (
            "Best validation loss, TPE with ASHA against random search with twice the trials, "
            f"{result['repetitions']} repetitions: no worse in"
        )
        standalone = "Lowest validation loss, TPE with ASHA: no worse than random search with twice the trials in"
        mean = f"mean difference {result['mean_difference']:+.4f}"
        rows.append(
            Row(what, f"{result['tpe_no_worse']} of {result['repetitions']}, {mean}", "search", standalone=standalone)
        )
    if (saved := read_result("chaos")) is not None:
        result = saved["result"]
        kills = ", ".join(f"{kind} {count}" for kind, count in sorted(result["killed"].items()))
        lost = "cells lost, cells twice, other leaderboards"
        what = f"Runs with processes killed at random ({kills}): {lost}"
        figure = f"{result['lost']}, {result['duplicated']}, {result['differing']} in {result['runs']} runs"
        rows.append(Row(what, figure, "chaos", standalone=f"Processes killed at random: {lost}"))
    return rows


def _recurrent() -> list[Row]:
    """Return the rows of the recurrent network."""
    saved = read_result("imdb")
    if saved is None:
        return []
    result, file = saved["result"], "imdb"
    reference, trained = result["by_semantics"]["reference"], result["training"]
    setting = f"mini-batches of {result['batch_size']}, two threads (pairs: {result['pairs']})"
    what = f"LSTM on reviews of 80 words, {setting}"
    step = (
        "A training step with recurrent dropout over one with `torch.nn.LSTM` without it, both with torch's Adam "
        f"(pairs: {result['pairs']})"
    )
    return [
        Row(
            f"{what}: sixteen configurations on {result['examples']:,} reviews in one pass, in single evaluations",
            spread_text(reference["cost_in_single_evaluations"]),
            file,
        ),
        Row(
            "the same against sixteen of them",
            f"{spread_text(reference['sixteen_singles_over_one_pass'])} times faster",
            file,
        ),
        Row(step, spread_text(trained["step"]), file),
        Row("the same as it runs, with Adam over rows", spread_text(trained["step_with_row_adam"]), file),
    ]


def _resume() -> list[Row]:
    """Return the rows of resumed trainings."""
    if (saved := read_result("resume")) is None:
        return []
    result, file = saved["result"], "resume"
    counts = f"{result['resumed']}, {result['repeated_epochs']} of {result['epochs']}, {result['differing']}"
    kills = f"Processes killed {result['kills']} times while they train"
    what = f"{kills}: attempts that resumed, epochs trained again, differing results"
    rows = [Row(what, counts, file)]
    for name, cost in result["networks"].items():
        what = f"{name}: training with a save after every epoch over one without (pairs: {result['pairs']})"
        size = f"{cost['state_bytes'] / 1e6:.1f} MB"
        rows.append(Row(what, f"{spread_text(cost['ratio_every_epoch'])}, file of {size}", file))
    return rows


def _time_estimate() -> list[Row]:
    """Return the row of estimated times."""
    if (saved := read_result("time_estimate")) is None:
        return []
    studies = saved["result"]["studies"]
    names = ", ".join(studies)
    what = f"Estimated over actual seconds of the processor, all trials of small studies ({names})"
    return [Row(what, spread_text(saved["result"]["ratio"]), "time_estimate")]


def _service() -> list[Row]:
    """Return the rows of the service."""
    rows = []
    if (saved := read_result("service")) is not None:
        result, file = saved["result"], "service"
        load = f"{result['clients']} clients without a pause"
        what = f"{result['rows']:,} evaluations, {load}, 95th percentile (rounds: {result['rounds']})"
        overhead = f"Half a minute of study through the service, over `run` (pairs: {result['pairs']})"
        table, listed = "Ranked table over HTTP", f"List of {result['studies']} studies over HTTP"
        rows += [
            Row(
                f"{table}, {what}",
                f"{spread_text(result['leaderboard_p95_spread'])} ms",
                file,
                standalone=f"{table}, {result['rows']:,} evaluations, {result['clients']} clients, 95th percentile",
            ),
            Row(f"{listed}, {what}", f"{spread_text(result['studies_p95_spread'])} ms", file),
            Row("Start of the service", f"{result['start_seconds']:.2f} s", file),
            Row(overhead, percent_text(result["overhead_spread"]), file),
        ]
    if (saved := read_result("service_chaos")) is not None:
        databases = [saved["result"][kind] for kind in ("sqlite", "postgres")]
        kills = sum(sum(run["kills"].values()) for run in databases)
        studies = sum(run["studies"] for run in databases)
        counts = [sum(run[name] for run in databases) for name in ("lost", "duplicated", "differing", "went_back")]
        what = (
            f"Worker, service and Postgres killed {kills} times, {studies} studies: cells lost, cells twice, other "
            "leaderboards, progress gone back"
        )
        standalone = f"Worker, service and Postgres killed {kills} times: the same, and progress gone back"
        rows.append(Row(what, ", ".join(map(str, counts)), "service_chaos", standalone=standalone))
    return rows


def _pages() -> list[Row]:
    """Return the rows of the web interface."""
    if (saved := read_result("pages")) is None:
        return []
    result, file = saved["result"], "pages"
    size = f"{result['trials']:,} trials and {result['evaluations']:,} evaluations"
    what = f"a study of {size}, in Chromium (runs: {result['runs']})"
    seconds = f"{result['live_seconds']:.0f} s with {result['live_events']} events"
    return [
        Row(
            f"First paint of the pages, {what}",
            f"{spread_text(result['first_paint_spread'])} ms",
            file,
        ),
        Row(
            "Its leaderboard usable, the table made for that request",
            f"{spread_text(result['leaderboard_spread'])} ms",
            file,
        ),
        *(
            [
                Row(
                    f"Two hundred of {result['studies']:,} studies listed",
                    f"{spread_text(result['list_spread'])} ms",
                    file,
                )
            ]
            if "list_spread" in result
            else []
        ),
        Row(
            f"Its live page, {seconds}: processor time of the browser",
            f"{result['live_core_share']:.0%} of a core",
            file,
        ),
    ]


def _statistics() -> list[Row]:
    """Return the rows of the comparison of rows and of the selection bias."""
    rows = []
    if (saved := read_result("statistics")) is not None:
        result, file = saved["result"], "statistics"
        size = f"{result['seeds']} seeds, {result['examples']:,} examples, one core, {result['runs']} runs"
        rows.append(
            Row(f"{result['pairs']} pairs of rows compared, {size}", f"{spread_text(result['spread'])} s", file)
        )
    if (saved := read_result("selection_bias")) is not None:
        result, file = saved["result"], "selection_bias"
        size = f"{result['rows']} equal rows, {result['examples']} examples, 1 to 10 seeds"
        simulations = f"{result['studies']:,} simulated studies in each of {result['equal_cases']} cases"
        unit = "in shares of that of equal rows, where one row is ahead by about its standard error"
        rows += [
            Row(
                f"Reported over true selection bias, {size}, {simulations}",
                spread_text(result["ratio_of_equal_rows"]),
                file,
            ),
            Row(f"Reported less true selection bias, {unit}", spread_text(result["excess_of_one_ahead"]), file),
        ]
    return [*rows, *answer_rows()]
