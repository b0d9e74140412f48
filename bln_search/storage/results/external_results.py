"""Decodes submitted results of networks that were trained elsewhere, and checks them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bln_search.core.records import Evaluation
from bln_search.core.states import EvaluationState
from bln_search.specs.external_results import ExternalEvaluation, ExternalResults
from bln_search.specs.problems import MAX_PROBLEMS, Problem

MOST_LOSSES = 100_000_000
"""Largest number of per-example losses of one submission, so that small bytes cannot inflate to large ones."""

_TOLERANCE = 1e-6
"""Largest difference of a mean loss from its per-example losses, relative to their mean size: they are float32."""

_SMALLEST = float(np.finfo(np.float32).tiny)
"""Smallest normal float32: below it, losses have fewer digits."""


@dataclass(frozen=True)
class CheckedEvaluation:
    """A checked evaluation.

    Attributes:
        network: Position of the network.
        evaluation: The evaluation, without outcomes.
        encoded_outcomes: Losses and correctness as `outcome_codec` encodes them; None unless measured.
    """

    network: int
    evaluation: Evaluation
    encoded_outcomes: tuple[bytes, bytes] | None


@dataclass(frozen=True)
class DecodedExternalResults:
    """Checked results.

    Attributes:
        evaluations: Every evaluation.
        sha256: Digest of all evaluations and their outcomes, independent of order and compression.
        problems: What is wrong; the other attributes are incomplete unless it is empty.
    """

    evaluations: tuple[CheckedEvaluation, ...]
    sha256: str
    problems: tuple[Problem, ...]


class _InvalidOutcomesError(Exception):
    """Outcomes cannot be used: the key that has them, and why."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key, self.reason = key, reason


def decode_results_and_list_problems(results: ExternalResults) -> DecodedExternalResults:
    """Decode all outcomes and check them against the evaluations."""
    problems = _find_structure_problems(results)
    if problems:
        return DecodedExternalResults((), "", tuple(problems[:MAX_PROBLEMS]))
    evaluations, digests = [], []
    for position, submitted in enumerate(results.evaluations):
        try:
            evaluation, outcomes, digest = _decode_evaluation(
                submitted, results.num_examples_by_split(submitted.condition)[submitted.split]
            )
        except _InvalidOutcomesError as error:
            problems.append(Problem(("evaluations", position, error.key), error.reason))
            if len(problems) == MAX_PROBLEMS:
                break
            continue
        evaluations.append(CheckedEvaluation(submitted.network, evaluation, outcomes))
        digests.append(digest)
    sha256 = hashlib.sha256(b"".join(sorted(digests))).hexdigest()
    return DecodedExternalResults(tuple(evaluations), sha256, tuple(problems))


def _find_structure_problems(results: ExternalResults) -> list[Problem]:
    """Problems that are visible without decoding any outcomes."""
    problems = _find_name_problems(results)
    count = len(results.networks)
    seen: dict[object, int] = {}
    for position, evaluation in enumerate(results.evaluations):
        location = "evaluations", position
        if evaluation.network >= count:
            problems.append(Problem((*location, "network"), f"there are {count} networks, numbered from 0"))
        if not evaluation.configuration.fits_method(results.method):
            message = f"{evaluation.configuration} is not a configuration of the method {results.method}"
            problems.append(Problem((*location, "configuration"), message))
        if evaluation.condition and evaluation.condition not in results.conditions:
            message = f"`conditions` does not have the condition {evaluation.condition}"
            problems.append(Problem((*location, "condition"), message))
        elif evaluation.split not in results.num_examples_by_split(evaluation.condition):
            place = f"`conditions.{evaluation.condition}`" if evaluation.condition else "`examples`"
            problems.append(Problem((*location, "split"), f"{place} does not have the split {evaluation.split}"))
        is_measured = evaluation.state is EvaluationState.MEASURED
        if is_measured and (evaluation.correct is not None) != results.has_accuracy:
            advice = (
                "a measured evaluation needs it" if results.has_accuracy else "the score has no accuracy: leave it out"
            )
            problems.append(Problem((*location, "correct"), advice))
        first = seen.setdefault((evaluation.network, evaluation.key), position)
        if first != position:
            problems.append(Problem(location, f"this repeats evaluation {first}: give each network and row once"))
    return problems or _find_missing_values_and_excess(results)


def _find_name_problems(results: ExternalResults) -> list[Problem]:
    names = [network.name for network in results.networks]
    fingerprints = [network.sha256 for network in results.networks if network.sha256 is not None]
    return [
        Problem(("networks", values.index(value)), f"two networks have the {kind} {value}: {advice}")
        for values, kind, advice in (
            (names, "name", "give each a name of its own"),
            (fingerprints, "parameters", "give networks that were trained independently, each once"),
        )
        for value in dict.fromkeys(values)
        if values.count(value) > 1
    ]


def _find_missing_values_and_excess(results: ExternalResults) -> list[Problem]:
    """Networks without a value on the split that ranks, and too many losses."""
    ranked = {
        evaluation.network
        for evaluation in results.evaluations
        if evaluation.split == results.ranked_on and not evaluation.condition
    }
    problems = [
        Problem(("networks", network), f"this network has no evaluation on {results.ranked_on}, which ranks")
        for network in range(len(results.networks))
        if network not in ranked
    ]
    measured = (each for each in results.evaluations if each.state is EvaluationState.MEASURED)
    losses = sum(results.num_examples_by_split(each.condition)[each.split] for each in measured)
    if losses > MOST_LOSSES:
        problems.append(
            Problem(("evaluations",), f"they have {losses:,} losses; the largest number is {MOST_LOSSES:,}")
        )
    return problems


def _decode_evaluation(submitted: ExternalEvaluation, n: int) -> tuple[Evaluation, tuple[bytes, bytes] | None, bytes]:
    """The evaluation of n examples, its encoded outcomes, and a digest of both.

    Without correctness it has no accuracy, and its outcomes are stored as incorrect.
    """
    key = submitted.key
    identity = f"{submitted.network} {key} {submitted.state} {submitted.reason} {submitted.loss!r}".encode()
    if submitted.loss is None or submitted.losses is None:
        evaluation = Evaluation(key, submitted.state, n=0, reason=submitted.reason)
        return evaluation, None, hashlib.sha256(identity).digest()
    deflated = _decode_base64("losses", submitted.losses)
    losses = _inflate_losses(deflated, n)
    has_correct = submitted.correct is not None
    bits = bytes(math.ceil(n / 8)) if submitted.correct is None else _decode_base64("correct", submitted.correct)
    if len(bits) != math.ceil(n / 8):
        raise _InvalidOutcomesError("correct", f"it has {len(bits)} bytes, {n} examples need {math.ceil(n / 8)}")
    mean, size = float(losses.mean(dtype=np.float64)), float(np.abs(losses).mean(dtype=np.float64))
    if abs(mean - submitted.loss) > _TOLERANCE * max(size, _SMALLEST):
        raise _InvalidOutcomesError("loss", f"it is {submitted.loss!r}, but the mean of the losses is {mean!r}")
    correct = np.unpackbits(np.frombuffer(bits, np.uint8), count=n).astype(np.bool_)
    evaluation = Evaluation(key, submitted.state, n, submitted.loss, float(correct.mean()) if has_correct else None)
    digest = hashlib.sha256(identity + losses.tobytes() + (correct.tobytes() if has_correct else b"")).digest()
    return evaluation, (deflated, bits), digest


def _decode_base64(key: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _InvalidOutcomesError(key, f"this is not base64: {error}") from None


def _inflate_losses(deflated: bytes, n: int) -> NDArray[np.float32]:
    """The losses of n examples; no more bytes are inflated than they need."""
    size = 4 * n
    inflater = zlib.decompressobj()
    try:
        content = inflater.decompress(deflated, size + 1)
    except zlib.error as error:
        raise _InvalidOutcomesError("losses", f"they are not deflated by zlib: {error}") from None
    if len(content) != size or not inflater.eof or inflater.unused_data:
        raise _InvalidOutcomesError("losses", f"they are not {n} numbers of 4 bytes, the examples of the split")
    losses = np.frombuffer(content, dtype="<f4")
    not_finite = np.flatnonzero(~np.isfinite(losses))
    if not_finite.size:
        raise _InvalidOutcomesError(
            "losses", f"the loss of example {not_finite[0]} is not a finite number: send the evaluation as `diverged`"
        )
    return losses
