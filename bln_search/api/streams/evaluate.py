"""Adapt networks to streams of mini-batches by several methods, and rank the methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack

import torch
from torch import nn

from bln_search.adaptation.run_stream import ConditionData
from bln_search.api.arguments import get_network_device, parse_flag
from bln_search.api.inputs.batch_forms import Target
from bln_search.api.inputs.evaluation_data import (
    EvaluationData,
    LoadersByCondition,
    parse_condition_loaders,
    parse_population_loaders,
)
from bln_search.api.inputs.loaders import Loader
from bln_search.api.networks import compute_fingerprints_unless_equal, parse_networks
from bln_search.api.preparation import PreparedNetwork
from bln_search.api.progress_lines import ProgressLines
from bln_search.api.streams.arms import ArmArgument, make_arms, parse_arms, parse_stream
from bln_search.api.streams.network_streams import NetworkStreams, run_arms_on_networks
from bln_search.api.streams.ranked import RankedStreams, check_practical, rank_streams
from bln_search.core.enums import Correction, parse_enum
from bln_search.core.errors import DataError
from bln_search.core.streams import SelectionData
from bln_search.data.inputs import Inputs, can_slice_examples, concatenate_inputs, have_same_form, map_tensors
from bln_search.evaluation.adapted_network import Forward
from bln_search.evaluation.isolated_passes import untouched_networks
from bln_search.norms.network.layers import get_norms_by_name, method_covering_all_layers
from bln_search.ranking.streams.arm_summary import StreamScore
from bln_search.specs.sections.adaptation import AdaptationSpec
from bln_search.tasks.cross_entropy import cross_entropy_and_correctness


class StreamOptions(TypedDict, total=False):
    """The stream, see `StreamSpec`."""

    order: str | Mapping[str, float]
    mixture: str
    rounds: int
    batch_size: int
    orders: int
    passes: int
    reset: str
    seed: int


def evaluate_streams(
    network: nn.Module | Sequence[nn.Module],
    train_loader: Loader | Mapping[str, Loader],
    stream_loader: Loader | Mapping[str, Loader],
    *,
    adapt: Sequence[ArmArgument] = ("none", {"name": "none", "configuration": "F"}, "tent"),
    source_loader: Loader | None = None,
    held_out_loader: Mapping[str, Loader] | None = None,
    oracle: bool = False,
    rank_by: str | StreamScore = "error",
    practical: float | None = None,
    current: str | None = None,
    population: str | None = None,
    forward: Forward | None = None,
    target: Target | None = None,
    progress: bool = True,
    **stream: Unpack[StreamOptions],
) -> RankedStreams:
    """Evaluate arms of test-time adaptation over streams of mini-batches, in one call, and rank them.

    Mini-batches arrive once, in order. Each arm adapts a copy of the network to them without targets; these are read
    for the scores alone. Each random order is a replicate. An arm that fails or diverges ends, and the others go on.

    Args:
        network: A classifier with normalization layers of bln-search. Or a list of such networks, trained alike with
            different seeds; each has orders of its own.
        train_loader: Mini-batches for the population values, as of `evaluate_configurations`; or several by name.
        stream_loader: Mini-batches (inputs, targets) with the examples of the stream, loaded into memory; their order
            and size do not matter. Or several by name, the conditions.
        adapt: The arms. Each is the name of a method, as `"tent"`, or a dictionary with `name`, `configuration` (a
            code, or a letter for all statistics), `weight` (of the letters B and E), `label`, `candidates` (lists of
            values by option, of which one is selected), and options of the method.
        source_loader: Labelled data without shift, by which candidates are selected.
        held_out_loader: Labelled conditions that the stream does not contain, by name: candidates are selected by them.
        oracle: Also select candidates by the stream's own labels, which no one has at inference; such an arm is marked.
        rank_by: `error`, the share of wrong predictions, or `loss`, the mean cross-entropy.
        practical: Difference of mean scores up to which arms are practically equal; None for 0.01.
        current: Label of the arm in use.
        population: Name of the population estimate that arms read; None for the first of `train_loader`.
        forward: As of `evaluate_configurations`.
        target: As of `evaluate_configurations`.
        progress: Show a bar in a notebook, else print a line on standard error every ten seconds, after the first ten.
        stream: `order`, `mixture`, `rounds`, `batch_size`, `orders`, `passes`, `reset` and `seed`: keys of the section
            `stream` of a study.

    Returns:
        The ranked arms.

    Raises:
        ModelError: The network cannot be adapted, or a method or an option is unknown.
        DataError: A loader does not yield mini-batches of a classification; or candidates have no data to select by.
        ValueError: Another argument is invalid.

    Example:
        ranked = bln_search.evaluate_streams(model, train_loader, {"noise": noisy, "fog": foggy}, orders=5)
        print(ranked)
    """
    networks = parse_networks(network, "evaluate_streams(network, train_loader, stream_loader)")
    spec, specs = parse_stream(stream), parse_arms(adapt)
    score = parse_enum(StreamScore, rank_by, "score")
    check_practical(practical)
    _check_labels(specs, current)
    parse_flag("oracle", oracle)
    roles = _parse_roles(stream_loader, source_loader, held_out_loader)
    _check_candidates(specs, has_data=len(roles) > 1 or oracle)
    compute_fingerprints_unless_equal(networks)
    loading = _Loading(
        parse_population_loaders(train_loader),
        population,
        forward,
        target,
        ProgressLines(enabled=parse_flag("progress", progress)),
    )
    with loading.progress, untouched_networks(networks):
        readings = {role: _make_reading(role, loading.populations, of_role) for role, of_role in roles.items()}
        streams = loading.prepare_all(networks, readings)
        arms = make_arms(specs, method_covering_all_layers(get_norms_by_name(networks[0])), loading.estimate)
        records = run_arms_on_networks(streams, arms, spec, score, oracle=oracle)
    return rank_streams(records, spec, score=score, practical=practical, current=current)


def _parse_roles(
    stream: Loader | Mapping[str, Loader], source: Loader | None, held_out: Mapping[str, Loader] | None
) -> dict[SelectionData, LoadersByCondition]:
    """The conditions of the stream, and those by which candidates are selected."""
    roles = {SelectionData.ORACLE: parse_condition_loaders(stream, None)}
    if source is not None:
        roles[SelectionData.SOURCE] = parse_condition_loaders(source, None)
    if held_out is not None:
        conditions = parse_condition_loaders(held_out, None)
        shared = sorted(str(name) for name in conditions.keys() & roles[SelectionData.ORACLE].keys())
        if shared:
            raise ValueError(f"the condition {shared[0]} is held out, and in the stream: remove it from one of them")
        roles[SelectionData.HELD_OUT] = conditions
    _check_loaders_differ(roles)
    return roles


def _check_loaders_differ(roles: Mapping[SelectionData, LoadersByCondition]) -> None:
    """Raise ValueError if a loader of the stream also selects candidates."""
    of_stream = {id(loader) for loader, _ in roles[SelectionData.ORACLE].values()}
    for role, conditions in roles.items():
        for name, (loader, _) in conditions.items():
            if role is not SelectionData.ORACLE and id(loader) in of_stream:
                raise ValueError(
                    f"the loader of {name or role.value} is one of the stream: select by other data, or by "
                    "oracle=True, which is marked"
                )


def _make_reading(
    role: SelectionData, populations: Mapping[str, Loader], conditions: LoadersByCondition
) -> EvaluationData:
    """The loaders of a role, with the name of their argument for messages."""
    reading = EvaluationData.from_loaders(populations, conditions)
    argument = "stream_loader" if role is SelectionData.ORACLE else f"{role}_loader"
    for condition in reading.conditions:
        condition.validation.name = argument if condition.name is None else f"{argument}[{condition.name!r}]"
    return reading


def _check_labels(specs: Sequence[AdaptationSpec], current: str | None) -> None:
    labels = [spec.display_label for spec in specs]
    if current is not None and current not in labels:
        raise ValueError(f"current={current!r} is no arm: the arms are {', '.join(labels)}")
    if any(spec.candidates for spec in specs if spec.display_label == current):
        raise ValueError(f"current={current!r} has candidates: name an arm whose options are given")


def _check_candidates(specs: Sequence[AdaptationSpec], *, has_data: bool) -> None:
    arm = next((spec.display_label for spec in specs if spec.candidates), None)
    if arm is not None and not has_data:
        raise ValueError(
            f"the arm {arm} has candidates, and there is nothing to select by: give source_loader or "
            "held_out_loader, or oracle=True"
        )


@dataclass(frozen=True)
class _Loading:
    """How networks are prepared and data are loaded."""

    populations: Mapping[str, Loader]
    population: str | None
    forward: Forward | None
    target: Target | None
    progress: ProgressLines

    @property
    def estimate(self) -> str:
        """The name of the population that arms read."""
        return self.population or next(iter(self.populations))

    def prepare_all(
        self, networks: Sequence[nn.Module], readings: Mapping[SelectionData, EvaluationData]
    ) -> list[NetworkStreams]:
        """Collect the populations of each network; data are read once, so that all networks have the same examples."""
        streams: list[NetworkStreams] = []
        for number, network in enumerate(networks):
            prepared = {role: self._prepare(network, reading) for role, reading in readings.items()}
            of_stream = prepared[SelectionData.ORACLE]
            measured = of_stream.measure_populations(None, Correction.BESSEL)
            if self.estimate not in measured.estimates:
                raise ValueError(f"population={self.population!r} is none of {', '.join(measured.estimates)}")
            device = get_network_device(network)
            data = (
                {role: _move(of_role, device) for role, of_role in streams[0].data.items()}
                if streams
                else {role: _load_conditions(each) for role, each in prepared.items()}
            )
            streams.append(NetworkStreams(of_stream.adapter.network, number, measured.values, data, self.progress))
        return streams

    def _prepare(self, network: nn.Module, reading: EvaluationData) -> PreparedNetwork:
        return PreparedNetwork(
            network,
            reading,
            score=cross_entropy_and_correctness,
            forward=self.forward,
            target=self.target,
            per_slot=False,
            one_pass=False,
            progress=self.progress,
        )


def _move(data: ConditionData, device: torch.device) -> ConditionData:
    """Return data on a device; the same where they are there."""
    return {name: (map_tensors(lambda x: x.to(device), x), y.to(device)) for name, (x, y) in data.items()}


def _load_conditions(prepared: PreparedNetwork) -> ConditionData:
    """Inputs and classes of every condition, in memory.

    Raises:
        DataError: Examples have different shapes.
    """
    data = {}
    first: Inputs | None = None
    for condition in prepared.data.conditions:
        loader = condition.validation
        pairs = list(prepared.adapter.iter_input_target_pairs(loader, cross_entropy_and_correctness))
        first = pairs[0][0] if first is None else first
        for inputs, _ in pairs:
            if not can_slice_examples(inputs) or not have_same_form(inputs, first):
                raise DataError(
                    f"{loader.name}: the examples of a stream are tensors of one shape in all conditions, with the "
                    "examples on the first axis"
                )
        data[condition.name or "stream"] = concatenate_inputs([x for x, _ in pairs]), torch.cat([y for _, y in pairs])
    return data
