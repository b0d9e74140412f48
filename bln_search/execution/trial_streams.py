"""Streams of the test split over which the network of a trial adapts, after its evaluation."""

from __future__ import annotations

from typing import cast

import torch

from bln_search.adaptation.arms import StreamArm
from bln_search.adaptation.run_stream import ConditionData, run_stream
from bln_search.adaptation.stream_plan import plan_stream
from bln_search.core.configuration import all_configurations
from bln_search.core.stream_outcomes import StreamRecord
from bln_search.execution.loaded_network import LoadedNetwork
from bln_search.execution.messages import PhaseProgress, Send, TrialPhase
from bln_search.execution.trial_evaluation import TestSplits
from bln_search.norms.row_batching.row_tensor import InferenceRow
from bln_search.specs.sections.adaptation import AdaptationSpec
from bln_search.specs.sections.condition import CLEAN
from bln_search.specs.trial import TrialSpec, list_arms_of_adaptation


def run_trial_over_streams(loaded: LoadedNetwork, tests: TestSplits, send: Send) -> tuple[StreamRecord, ...]:
    """Run every arm of adaptation over every order of the trial's stream.

    The stream has the conditions of the evaluation, and clean images where there are none. Random numbers of a method
    depend on the seed of the trial alone, so that a trial that is repeated from its checkpoint has the same records.

    Args:
        loaded: The trained network with its populations; it is not changed.
        tests: The test split by condition.
        send: Receives the progress.

    Raises:
        ModelError: A method cannot adapt the network.
    """
    trial, spec, adaptations = loaded.trial, loaded.trial.stream, list_arms_of_adaptation(loaded.trial)
    if spec is None or not adaptations:
        return ()
    names = trial.evaluation.additional_condition_names or (CLEAN,)
    data = cast("ConditionData", {name: tests[name] for name in names})  # data of streams are in memory
    classes = {name: targets.cpu().numpy() for name, (_, targets) in data.items()}
    arms = [make_stream_arm(adaptation, trial) for adaptation in adaptations]
    total = sum(map(len, classes.values())) * spec.passes * spec.orders
    done = 0

    def progress(examples: int) -> None:
        nonlocal done
        done += examples
        send(PhaseProgress(TrialPhase.STREAMS, done, total))

    records = []
    for order in range(spec.orders):
        plan = plan_stream(classes, spec, order=order, network=trial.seed)
        torch.manual_seed(trial.seed)
        outcomes = run_stream(
            loaded.network, arms, loaded.populations_by_estimate_and_layer, data, plan, progress=progress
        )
        records += [
            StreamRecord(
                arm=arm.label,
                seed=trial.seed,
                order=order,
                layout=plan,
                outcomes=of_arm,
                classes=loaded.data.num_outputs,
                selected_on=arm.selected_on,
                options=arm.options,
            )
            for arm, of_arm in zip(arms, outcomes, strict=True)
        ]
    return tuple(records)


def make_stream_arm(adaptation: AdaptationSpec, trial: TrialSpec) -> StreamArm:
    """The arm of a trial's network: its configuration reads the first population estimate of the trial."""
    method = trial.arm.method
    configuration = adaptation.make_configuration(method) if method.statistics else all_configurations(method)[0]
    estimate = adaptation.make_estimate(configuration, trial.population_estimates[0])
    return StreamArm(
        adaptation.display_label, InferenceRow(configuration, estimate), adaptation.name, adaptation.own_options
    )
