"""Results of networks that were trained elsewhere, without networks: random losses under every configuration."""

from __future__ import annotations

import numpy as np

from bln_search.core.configuration import all_configurations
from bln_search.core.enums import Split
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.method import Method
from bln_search.core.states import EvaluationState
from bln_search.specs.external_results import ExternalEvaluation, ExternalResults, encode_base64
from bln_search.specs.sections.external import ExternalNetwork
from bln_search.storage.outcome_codec import encode_losses_and_correctness
from bln_search.storage.results.external_results import decode_results_and_list_problems

RESULTS = "/api/v1/studies/results"


def outcomes_of(network, position, n):
    rng = np.random.default_rng((network, position))
    return ExampleOutcomes(rng.random(n).astype(np.float32), rng.random(n) < 0.5)


def make_results(name="own", networks=2, n=30, batch_size=25, undefined="TTTT", splits=tuple(Split)[1:], **fields):
    """Results of a BLN network; the configuration `undefined` has no value."""
    evaluations = []
    for network in range(networks):
        for position, configuration in enumerate(all_configurations(Method.BLN)):
            identity = {
                "network": network,
                "configuration": configuration,
                "estimate": "frozen" if configuration.uses_population else None,
                "batch_size": batch_size,
            }
            for split in splits:
                if str(configuration) == undefined:
                    state = {"state": EvaluationState.UNDEFINED, "reason": "Std_B: it has no value"}
                    evaluations.append(ExternalEvaluation(**identity, split=split, **state))
                    continue
                outcomes = outcomes_of(network, position, n)
                losses, correct = map(encode_base64, encode_losses_and_correctness(outcomes))
                evaluations.append(
                    ExternalEvaluation(
                        **identity,
                        split=split,
                        state=EvaluationState.MEASURED,
                        loss=float(outcomes.losses.mean(dtype=np.float64)),
                        losses=losses,
                        correct=correct,
                    )
                )
    described = {"networks": tuple(ExternalNetwork(name=f"run {i}", sha256=f"{i:064x}") for i in range(networks))}
    sizes = dict.fromkeys(splits, n)
    return ExternalResults(
        name=name, method=Method.BLN, examples=sizes, evaluations=tuple(evaluations), **{**described, **fields}
    )


def results_body(name="own", **options):
    """The same as JSON."""
    return make_results(name, **options).model_dump(mode="json")


def submit(ledger, name="own", owner="ada", key=None, **options):
    """Store the results; returns the submission."""
    results = make_results(name, **options)
    checked = decode_results_and_list_problems(results)
    assert checked.problems == ()
    return ledger.external.submit_complete_study(
        results.make_study_spec(checked.sha256), checked.evaluations, owner, key
    )
