"""The rows of the table of benchmarks, from bench/results and nothing else; `bench.figures` writes them down."""

from __future__ import annotations

from dataclasses import dataclass

from bench.reporting import read_result


@dataclass(frozen=True)
class Row:
    """A row of the table of benchmarks.

    file: its result without `.json`; empty where nothing was measured.
    alone: what it is called in the README, where the rows around it are missing; None where it is not there.
    """

    what: str
    figure: str
    file: str
    alone: str | None = None

    def line(self, what: str) -> str:
        """As Markdown."""
        return f"| {what} | {self.figure} | {f'`bench/results/{self.file}.json` |' if self.file else '|'}"


def benchmark_rows() -> list[Row]:
    """Those of the benchmarks that have been run."""
    return [*_one_pass(), *_training(), *_orchestration(), *_service(), *_pages(), *_statistics(), *_recurrent()]


def _one_pass() -> list[Row]:
    whole, gpu = read_result("enumerate"), read_result("enumerate_gpu")
    assert whole is not None
    found, file = whole["result"], "enumerate"
    by = found["by_semantics"]
    what = (
        "Sixteen configurations in one pass against one after another, LeNet, CIFAR-10 shapes, mini-batches of "
        f"{found['batch_size']}, {found['examples']:,} examples, two threads (pairs: {found['pairs']})"
    )
    single = _spread(by["reference"]["cost_in_single_evaluations"])
    exact, close = found["max_relative_difference_float64"], found["max_relative_difference"]
    precision = "Largest relative difference of the losses, LeNet, MLP and a residual network"
    speed = {reading: f"{_spread(by[reading]['speedup'])} times faster" for reading in ("reference", "paper")}
    on_gpu = "not measured"
    if gpu is not None:
        spread = _spread(gpu["result"]["by_semantics"]["reference"]["speedup"])
        on_gpu = f"{spread} times faster ({gpu['provenance']['hardware']})"
    return [
        Row(f"{what}, reference reading", speed["reference"], file),
        Row(f"{what}, paper reading", speed["paper"], file, alone=f"{what}, paper reading"),
        Row("The same in single evaluations (reference reading)", single, file),
        Row(
            precision,
            f"{exact:.0e} in double, {close:.0e} in single precision",
            file,
            alone=f"{precision}, one pass and one after another",
        ),
        Row("The same on a GPU", on_gpu, "" if gpu is None else "enumerate_gpu", alone="One pass on a GPU"),
    ]


def _training() -> list[Row]:
    whole = read_result("training")
    assert whole is not None
    spread, what = whole["result"]["spread"], f"Training over a bare PyTorch loop (pairs: {whole['result']['pairs']})"
    return [
        Row(what, _percent(spread["frozen"]), "training", alone=what),
        Row("with the `epoch` estimate folded along the way", _percent(spread["epoch"]), "training"),
    ]


def _orchestration() -> list[Row]:
    """Those about carrying trials out."""
    rows = []
    if (whole := read_result("orchestration")) is not None:
        found, file = whole["result"], "orchestration"
        what = f"{found['trials']} trials of a second, Ray Tune underneath, two cores (pairs: {found['pairs']})"
        rows += [
            Row(f"{what}: over the bare training, workers up", _percent(found["overhead_spread"]), file),
            Row(
                "the same, every start and stop in it",
                _percent(found["overhead_whole_spread"]),
                file,
                alone=f"{what}: over the bare training, every start and stop in it",
            ),
            Row("against plain Ray Tune", f"{_spread(found['versus_ray_tune_spread'])} times faster", file),
        ]
    if (whole := read_result("versus_grid")) is not None:
        found, file = whole["result"], "versus_grid"
        what = (
            "Sixteen configurations × three seeds, the same table, against training each cell anew "
            f"(pairs: {found['pairs']})"
        )
        for other, name in (("Ray Tune `grid_search`", "ray_tune"), ("Optuna `GridSampler`", "optuna")):
            figure = f"{_spread(found[f'versus_{name}_spread'])} times faster"
            rows.append(Row(f"{what}: {other}", figure, file, alone=f"{what}: {other}"))
    if (whole := read_result("search")) is not None:
        found = whole["result"]
        what = (
            "Best validation loss, TPE with ASHA against random search with twice the trials, "
            f"{found['repetitions']} repetitions: no worse in"
        )
        mean = f"mean difference {found['mean_difference']:+.4f}"
        rows.append(Row(what, f"{found['tpe_no_worse']} of {found['repetitions']}, {mean}", "search", alone=what))
    if (whole := read_result("chaos")) is not None:
        found = whole["result"]
        kills = ", ".join(f"{kind} {count}" for kind, count in sorted(found["killed"].items()))
        what = f"Runs with processes killed at random ({kills}): cells lost, cells twice, other leaderboards"
        figure = f"{found['lost']}, {found['duplicated']}, {found['differing']} in {found['runs']} runs"
        rows.append(Row(what, figure, "chaos", alone=what))
    return rows


def _recurrent() -> list[Row]:
    """Those of the recurrent network."""
    whole = read_result("imdb")
    if whole is None:
        return []
    found, file = whole["result"], "imdb"
    by, trained = found["by_semantics"]["reference"], found["training"]
    what = f"LSTM on reviews of 80 words, mini-batches of {found['batch_size']}, two threads (pairs: {found['pairs']})"
    step = (
        "A training step with recurrent dropout over one with `torch.nn.LSTM` without it, both with torch's Adam "
        f"(pairs: {found['pairs']})"
    )
    return [
        Row(
            f"{what}: sixteen configurations on {found['examples']:,} reviews in one pass, in single evaluations",
            _spread(by["cost_in_single_evaluations"]),
            file,
        ),
        Row("the same against sixteen of them", f"{_spread(by['sixteen_singles_over_one_pass'])} times faster", file),
        Row(step, _spread(trained["step"]), file),
        Row("the same as it runs, with Adam over rows", _spread(trained["step_with_row_adam"]), file),
    ]


def _service() -> list[Row]:
    """Those of the service."""
    rows = []
    if (whole := read_result("service")) is not None:
        found, file = whole["result"], "service"
        many = f"{found['clients']} clients without a pause"
        what = f"{found['rows']:,} evaluations, {many}, 95th percentile (rounds: {found['rounds']})"
        over = f"Half a minute of study through the service, over `run` (pairs: {found['pairs']})"
        table, listed = "Ranked table over HTTP", f"List of {found['studies']} studies over HTTP"
        rows += [
            Row(f"{table}, {what}", f"{_spread(found['leaderboard_p95_spread'])} ms", file, alone=f"{table}, {what}"),
            Row(f"{listed}, {what}", f"{_spread(found['studies_p95_spread'])} ms", file),
            Row("Start of the service", f"{found['start_seconds']:.2f} s", file),
            Row(over, _percent(found["overhead_spread"]), file),
        ]
    if (whole := read_result("service_chaos")) is not None:
        parts = [whole["result"][kind] for kind in ("sqlite", "postgres")]
        kills = sum(sum(one["kills"].values()) for one in parts)
        studies = sum(one["studies"] for one in parts)
        told = [sum(one[name] for one in parts) for name in ("lost", "duplicated", "differing", "went_back")]
        what = (
            f"Worker, service and Postgres killed {kills} times, {studies} studies: cells lost, cells twice, other "
            "leaderboards, progress gone back"
        )
        rows.append(Row(what, ", ".join(map(str, told)), "service_chaos", alone=what))
    return rows


def _pages() -> list[Row]:
    """Those of the pages."""
    if (whole := read_result("pages")) is None:
        return []
    found, file = whole["result"], "pages"
    of = f"{found['trials']:,} trials and {found['evaluations']:,} evaluations"
    what = f"a study of {of}, in Chromium (runs: {found['runs']})"
    seconds = f"{found['live_seconds']:.0f} s with {found['live_events']} events"
    return [
        Row(
            f"First paint of the pages, {what}",
            f"{_spread(found['first_paint_spread'])} ms",
            file,
        ),
        Row(
            "Its leaderboard usable, the table made for that request",
            f"{_spread(found['leaderboard_spread'])} ms",
            file,
        ),
        Row(
            f"Its live page, {seconds}: processor time of the browser",
            f"{found['live_core_share']:.0%} of a core",
            file,
        ),
    ]


def _statistics() -> list[Row]:
    """Those of the comparison of rows."""
    rows = []
    if (whole := read_result("statistics")) is not None:
        found, file = whole["result"], "statistics"
        of = f"{found['seeds']} seeds, {found['examples']:,} examples, one core, {found['runs']} runs"
        rows.append(Row(f"{found['pairs']} pairs of rows compared, {of}", f"{_spread(found['spread'])} s", file))
    if (whole := read_result("selection_bias")) is not None:
        found, file = whole["result"], "selection_bias"
        of = f"{found['rows']} equal rows, {found['examples']} examples, 1 to 10 seeds"
        many = f"{found['studies']:,} simulated studies in each of {found['equal_cases']} cases"
        ahead = "in shares of that of equal rows, where one row is ahead by about its standard error"
        rows += [
            Row(f"Reported over true selection bias, {of}, {many}", _spread(found["ratio_of_equal_rows"]), file),
            Row(f"Reported less true selection bias, {ahead}", _spread(found["excess_of_one_ahead"]), file),
        ]
    return rows


def _spread(values: dict[str, float]) -> str:
    return f"{values['median']:.2f} [{values['min']:.2f}, {values['max']:.2f}]"


def _percent(values: dict[str, float]) -> str:
    return f"{values['median']:+.1%} [{values['min']:+.1%}, {values['max']:+.1%}]"
