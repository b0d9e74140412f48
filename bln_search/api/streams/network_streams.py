"""Arms on streams of networks: candidates are selected, and every arm runs on every order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import nn

from bln_search.adaptation.arms import StreamArm
from bln_search.adaptation.run_stream import ConditionData, run_stream
from bln_search.adaptation.stream_plan import StreamPlan, plan_stream
from bln_search.api.progress_lines import ProgressLines
from bln_search.api.streams.arms import CandidateArms
from bln_search.core.stream_outcomes import StreamOutcomes, StreamRecord
from bln_search.core.streams import SelectionData
from bln_search.norms.row_batching.row_tensor import Populations
from bln_search.ranking.streams.arm_summary import StreamScore
from bln_search.specs.sections.stream import StreamSpec


@dataclass(frozen=True)
class NetworkStreams:
    """One network with its populations, and the data of its streams in memory.

    Attributes:
        network: The network.
        number: Its number among the networks.
        populations: Population values of each layer.
        data: Conditions of the stream (`ORACLE`) and of the data by which candidates are selected.
        progress: Counts examples.
    """

    network: nn.Module
    number: int
    populations: Populations
    data: Mapping[SelectionData, ConditionData]
    progress: ProgressLines

    def run(
        self, arms: Sequence[StreamArm], spec: StreamSpec, order: int, role: SelectionData
    ) -> tuple[StreamPlan, list[StreamOutcomes]]:
        """Run arms on one stream; return its plan, and the outcomes of each arm."""
        plan = plan_stream(self._labels(role), spec, order=order, network=self.number)
        part = f"network {self.number}, order {order}" + ("" if role is SelectionData.ORACLE else f", {role.label}")
        self.progress.start_part(part, "examples", len(plan.condition_of))
        outcomes = run_stream(
            self.network, arms, self.populations, self.data[role], plan, progress=self.progress.advance
        )
        return plan, outcomes

    @property
    def classes(self) -> int:
        """Number of classes among the targets of the stream."""
        return 1 + max(int(labels.max()) for labels in self._labels(SelectionData.ORACLE).values())

    def _labels(self, role: SelectionData) -> dict[str, NDArray[np.int64]]:
        return {name: targets.cpu().numpy() for name, (_, targets) in self.data[role].items()}


def run_arms_on_networks(
    networks: Sequence[NetworkStreams],
    arms: Sequence[CandidateArms],
    spec: StreamSpec,
    score: StreamScore,
    *,
    oracle: bool,
) -> list[StreamRecord]:
    """Select candidates by the data for that purpose, run all arms on all streams, and return a record for each.

    Args:
        networks: The networks.
        arms: The arms with their candidates.
        spec: The streams; those of the selection are of the same form.
        score: The score that selects: the loss breaks ties of the error.
        oracle: Also select by the labels of the stream.
    """
    with_selection = [arm for arm in arms if arm.has_selection]
    roles = [role for role in (SelectionData.SOURCE, SelectionData.HELD_OUT) if role in networks[0].data]
    chosen = {role: _select(networks, with_selection, spec, role, score) for role in roles if with_selection}
    records: list[StreamRecord] = []
    of_oracle: list[tuple[NetworkStreams, int, StreamPlan, dict[StreamArm, StreamOutcomes]]] = []
    for network in networks:
        for order in range(spec.orders):
            wanted = _list_arms(arms, chosen, oracle=oracle)
            plan, outcomes = network.run(wanted, spec, order, SelectionData.ORACLE)
            of_oracle.append((network, order, plan, dict(zip(wanted, outcomes, strict=True))))
    if oracle and with_selection:
        chosen[SelectionData.ORACLE] = {
            arm.label: _find_best([[of_arm[each] for *_, of_arm in of_oracle] for each in arm.arms], score)
            for arm in with_selection
        }
    for network, order, plan, of_arm in of_oracle:
        for arm, selected in _list_rows(arms, chosen):
            records.append(
                StreamRecord(
                    selected.label,
                    network.number,
                    order,
                    plan,
                    of_arm[arm],
                    network.classes,
                    selected.selected_on,
                    selected.options,
                    selected.row.label,
                    selected.method,
                )
            )
    return records


def _select(
    networks: Sequence[NetworkStreams],
    arms: Sequence[CandidateArms],
    spec: StreamSpec,
    role: SelectionData,
    score: StreamScore,
) -> dict[str, int]:
    """Return the number of the best candidate of each arm over networks and orders."""
    candidates = [candidate for arm in arms for candidate in arm.arms]
    runs = [network.run(candidates, spec, order, role)[1] for network in networks for order in range(spec.orders)]
    of_candidates = iter(zip(*runs, strict=True))
    return {arm.label: _find_best([next(of_candidates) for _ in arm.arms], score) for arm in arms}


def _find_best(candidates: Sequence[Sequence[StreamOutcomes]], score: StreamScore) -> int:
    """Return the number of the candidate with the best mean score over streams; equal errors are told by the loss."""
    means = [
        (sum(each.error for each in streams), sum(float(each.losses.mean(dtype=np.float64)) for each in streams))
        for streams in candidates
    ]
    keys = [mean if score is StreamScore.ERROR else mean[::-1] for mean in means]
    return keys.index(min(keys))


Chosen = Mapping[SelectionData, Mapping[str, int]]
"""Number of the selected candidate of each arm, by label, for each data of selection."""


def _list_rows(arms: Sequence[CandidateArms], chosen: Chosen) -> list[tuple[StreamArm, StreamArm]]:
    """Return each arm that is run with the arm of the table; several rows may share a run."""
    rows = []
    for arm in arms:
        if not arm.has_selection:
            rows.append((arm.arms[0], arm.arms[0]))
            continue
        rows += [(arm.arms[of[arm.label]], arm.selected(of[arm.label], role)) for role, of in chosen.items()]
    return rows


def _list_arms(arms: Sequence[CandidateArms], chosen: Chosen, *, oracle: bool) -> list[StreamArm]:
    """Return the arms to run: selected candidates once, with an oracle all candidates."""
    if oracle:
        return [candidate for arm in arms for candidate in arm.arms]
    return list(dict.fromkeys(run for run, _ in _list_rows(arms, chosen)))
