"""How many examples the splits of a study have, as far as that is known without the data, and what they must hold."""

from __future__ import annotations

from collections.abc import Iterator

from bln_search.core.enums import Split
from bln_search.specs.data import DataSpec
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import border_trials

EXAMPLES = {
    "cifar10": {Split.TRAIN: 50_000, Split.TEST: 10_000},
    "digits": {Split.TRAIN: 1_437, Split.TEST: 360},
    "imdb": {Split.TRAIN: 25_000, Split.TEST: 25_000},
    "mnist": {Split.TRAIN: 60_000, Split.TEST: 10_000},
}
"""Examples of the built-in data sets, as published."""

MORE = {
    Split.TRAIN: ", raise data.fraction, or lower data.validation",
    Split.VALIDATION: ", or raise data.fraction or data.validation",
    Split.TEST: "",
}
"""What gives a split more examples."""

Place = tuple[int | str, ...]


def held_out(spec: DataSpec, available: int) -> int:
    """Validation examples of so many, before `fraction` is taken."""
    given = spec.validation
    return given if isinstance(given, int) else max(1, round(given * available))


def split_sizes(spec: DataSpec) -> dict[Split, int]:
    """Examples of each split; empty where the data set's size is not known, or does not allow such splits."""
    known = EXAMPLES.get(spec.name)
    if known is None or held_out(spec, known[Split.TRAIN]) >= known[Split.TRAIN]:
        return {}
    validation = held_out(spec, known[Split.TRAIN])
    training = round(spec.fraction * (known[Split.TRAIN] - validation))
    validation = round(spec.fraction * validation)
    if not training or not validation:
        return {}
    return {Split.TRAIN: training, Split.VALIDATION: validation, Split.TEST: known[Split.TEST]}


def too_large(batch_size: int, split: Split, size: int) -> str:
    """The sentence for a mini-batch that a split does not hold."""
    return (
        f"a mini-batch of {batch_size} examples is larger than the {split} split, which has {size}: "
        f"lower batch_size{MORE[split]}"
    )


def oversized(study: StudySpec) -> Iterator[tuple[Place, str]]:
    """Where the study asks for a mini-batch that a split does not hold, and what is wrong with it.

    Its space must be one that every arm can take.
    """
    sizes = split_sizes(study.data)
    for place, batch_size in _batch_sizes(study):
        for split, size in sizes.items():
            if batch_size > size:
                yield place, too_large(batch_size, split, size)
                break


def _batch_sizes(study: StudySpec) -> Iterator[tuple[Place, int]]:
    """Of training, evaluation and probes."""
    for size in sorted({trial.training.batch_size for trial in border_trials(study)}):
        yield ("training", "batch_size") if size == study.training.batch_size else ("space",), size
    probed = () if study.probes is None else study.probes.batch_sizes
    for section, given in (("evaluation", study.evaluation.batch_sizes), ("probes", probed)):
        for position, size in enumerate(given or ()):
            yield (section, "batch_sizes", position), size
