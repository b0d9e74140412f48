"""The sizes of a study's splits, as far as they are known without the data, and mini-batches larger than a split."""

from __future__ import annotations

from collections.abc import Iterator

from bln_search.core.enums import Split
from bln_search.specs.sections.data import DataSpec
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import make_representative_trial_specs

_REMEDIES = {
    Split.TRAIN: ", raise data.fraction, or lower data.validation",
    Split.VALIDATION: ", or raise data.fraction or data.validation",
    Split.TEST: "",
}
"""How a study gets a larger split; the end of a sentence."""

_ONE_EXAMPLE = (Split.VALIDATION, 1)

Location = tuple[int | str, ...]


def count_validation_examples(spec: DataSpec, available: int) -> int:
    """The number of validation examples out of `available` ones, before `fraction` is applied."""
    validation = spec.validation
    return validation if isinstance(validation, int) else max(1, round(validation * available))


def list_known_split_sizes(spec: DataSpec) -> dict[Split, int]:
    """The size of each split; empty if the data set's size is unknown or too small."""
    if spec.info is None or spec.info.examples is None:
        return {}
    published, test = spec.info.examples
    validation = count_validation_examples(spec, published)
    training = round(spec.fraction * max(0, published - validation))
    validation = round(spec.fraction * validation)
    if not training or not validation:
        return {}
    return {Split.TRAIN: training, Split.VALIDATION: validation, Split.TEST: test}


def format_oversized_batch_message(batch_size: int, split: Split, size: int) -> str:
    """The message for a mini-batch that is larger than a split."""
    count = (
        "; data.validation is a count from 1 on, also as 1.0: a fraction is below 1"
        if (split, size) == _ONE_EXAMPLE
        else ""
    )
    return (
        f"a mini-batch of {batch_size} examples is larger than the {split} split, which has {size}: "
        f"lower batch_size{_REMEDIES[split]}{count}"
    )


def iter_oversized_batch_messages(study: StudySpec) -> Iterator[tuple[Location, str]]:
    """Locations of mini-batch sizes that are larger than a split, with their messages.

    Every arm must be able to take every point of the space.
    """
    sizes = list_known_split_sizes(study.data)
    for location, batch_size in _iter_batch_sizes(study):
        for split, size in sizes.items():
            if batch_size > size:
                yield location, format_oversized_batch_message(batch_size, split, size)
                break


def _iter_batch_sizes(study: StudySpec) -> Iterator[tuple[Location, int]]:
    """The locations and values of the mini-batch sizes of training, evaluation and probes."""
    for size in sorted({trial.training.batch_size for trial in make_representative_trial_specs(study)}):
        yield ("training", "batch_size") if size == study.training.batch_size else ("space",), size
    probe_sizes = () if study.probes is None else study.probes.batch_sizes
    for section, batch_sizes in (("evaluation", study.evaluation.batch_sizes), ("probes", probe_sizes)):
        for position, size in enumerate(batch_sizes or ()):
            yield (section, "batch_sizes", position), size
