"""Results of networks of one's own in the form in which a service takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import TypedDict

from pydantic import ValidationError

from bln_search.api.ranked.rows import RankedRows
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.errors import ModelError
from bln_search.core.loss_description import CROSS_ENTROPY
from bln_search.core.method import Method
from bln_search.core.records import EvaluationKey
from bln_search.ranking.leaderboard import LeaderboardRow
from bln_search.specs.external_results import ExternalEvaluation, ExternalResults, encode_base64
from bln_search.specs.pydantic_messages import translate_pydantic_error
from bln_search.specs.sections.external import (
    ExternalBaseline,
    ExternalInferenceRow,
    ExternalLossDescription,
    ExternalNetwork,
)
from bln_search.storage.outcome_codec import encode_losses_and_correctness


class ExternalResultsArguments(TypedDict, total=False):
    """What a table does not contain: arguments of `build_external_results`."""

    title: str
    method: str | None
    network_names: Sequence[str] | None
    data: str
    model: str


def build_external_results(
    table: RankedRows,
    name: str,
    *,
    ranking_condition: str = "",
    conditions: Mapping[str, RankedRows] = MappingProxyType({}),
    title: str = "",
    method: str | None = None,
    network_names: Sequence[str] | None = None,
    data: str = "external",
    model: str = "external",
) -> ExternalResults:
    """The results of a table, and of those of further conditions; see `RankedConfigurations.to_external_results`.

    `ranking_condition` is the condition of the table whose loss ranks the rows; empty without conditions.

    Raises:
        ModelError: The table or an argument cannot be submitted; the message says why.
    """
    tables = table.per_network_tables
    codes = {row.configuration for row in table.board.rows}
    try:
        return ExternalResults(
            name=name,
            title=title,
            method=_choose_method(codes, method),
            data=data,
            model=model,
            networks=_build_external_networks(tables, table.fingerprints, network_names),
            examples=_example_counts_by_split(tables[0]),
            ranking_condition=ranking_condition,
            conditions={
                name: _example_counts_by_split(other.per_network_tables[0]) for name, other in conditions.items()
            },
            score=_build_external_score(table),
            ranked_on=table.board.ranked_on,
            per_slot=table.per_slot,
            class_prior=table.class_prior and ExternalBaseline(**asdict(table.class_prior)),
            deployed=table.deployed
            and ExternalInferenceRow(configuration=table.deployed.configuration, estimate=table.deployed.estimate),
            evaluations=tuple(
                evaluation
                for condition, submitted in {"": table, **conditions}.items()
                for position, single in enumerate(submitted.per_network_tables)
                for row in single.board.rows
                for evaluation in _build_external_evaluations_of_row(position, row, single, condition)
            ),
        )
    except ValidationError as error:
        details = error.errors()[0]
        location = ".".join(str(part) for part in details["loc"])
        raise ModelError(
            f"these results cannot be submitted: {location}: {translate_pydantic_error(details)}"
        ) from None


def _choose_method(codes: set[InferenceConfiguration], method: str | None) -> Method:
    """The method with these configurations; by default the first one that fits. Raises ModelError if none does."""
    names = list(Method) if method is None else [method]
    for candidate in (Method(name) for name in names if name in list(Method)):
        if all(code.fits_method(candidate) for code in codes):
            return candidate
    listed = ", ".join(sorted(map(str, codes)))
    if method is None:
        raise ModelError(f"no method has the configurations {listed}")
    raise ModelError(f"{method!r} is not a method with the configurations {listed}: choose one of {', '.join(Method)}")


def _build_external_networks(
    tables: Sequence[RankedRows], fingerprints: Sequence[str], names: Sequence[str] | None
) -> tuple[ExternalNetwork, ...]:
    """The networks with their names, by default their positions. Raises ModelError for another number of names."""
    if names is None:
        names = [f"network {position}" for position in range(len(tables))]
    if isinstance(names, str) or len(names) != len(tables) or len(set(names)) < len(names):
        raise ModelError(f"network_names needs one different name for each of the {len(tables)} networks, not {names}")
    digests: Sequence[str | None] = fingerprints or [None] * len(tables)
    return tuple(ExternalNetwork(name=name, sha256=digest) for name, digest in zip(names, digests, strict=True))


def _example_counts_by_split(table: RankedRows) -> dict[Split, int]:
    """The number of examples of each split. Raises ModelError where mini-batch sizes have different numbers."""
    counts: dict[Split, set[int]] = {}
    for key, outcomes in table.outcomes.items():
        counts.setdefault(key.split, set()).add(len(outcomes.losses) - outcomes.left_out)
    for split, sizes in counts.items():
        if len(sizes) > 1:
            raise ModelError(
                f"the rows have {', '.join(map(str, sorted(sizes)))} examples of the split {split}: results are "
                "submitted if all rows have the same examples; evaluate without stop="
            )
    if table.board.ranked_on not in counts:
        raise ModelError("no configuration could be measured: there are no results to submit")
    return {split: next(iter(sizes)) for split, sizes in counts.items()}


def _build_external_score(table: RankedRows) -> ExternalLossDescription | None:
    """The loss of a table; None for the cross-entropy of a classification."""
    if table.score == CROSS_ENTROPY and table.has_accuracy:
        return None
    return ExternalLossDescription(name=table.score.name, unit=table.score.unit, has_accuracy=table.has_accuracy)


def _build_external_evaluations_of_row(
    network: int, row: LeaderboardRow, table: RankedRows, condition: str
) -> list[ExternalEvaluation]:
    """The evaluations of a row; a row without a value has one on the split that ranks."""
    identity = {
        "network": network,
        "configuration": row.configuration,
        "estimate": row.estimate,
        "batch_size": row.batch_size,
        "state": row.state,
        "condition": condition,
    }
    if not row.metrics:
        return [ExternalEvaluation(**identity, split=table.board.ranked_on, reason=row.reason)]
    evaluations = []
    for split, metrics in row.metrics.items():
        outcomes = table.outcomes[EvaluationKey(row.configuration, row.estimate, row.batch_size, split)]
        losses, correct = encode_losses_and_correctness(outcomes.linearized())
        evaluations.append(
            ExternalEvaluation(
                **identity,
                split=split,
                loss=metrics.loss.mean,
                losses=encode_base64(losses),
                correct=encode_base64(correct) if table.has_accuracy else None,
            )
        )
    return evaluations
