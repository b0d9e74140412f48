"""What a study cannot say is refused in one problem, which says what to do."""

from __future__ import annotations

import pytest

from bln_search.core.errors import SpecError
from bln_search.specs import list_planned_trial_specs
from tests.specs.minimal_study import problems, study, study_text


def arm(text):
    return {"arms": f"[{{method: {text}}}]"}


def arms(text):
    return {"arms": f"[{text}]"}


MBN_RAMP = "mbn, lambda: {kind: linear, initial: 0, final: 1, begin: 0.5, end: 0.5}"
TEXTS = {"data": "{name: imdb}", "model": "{name: lstm}"}
IN_CELLS = {"data": "{name: imdb}", "model": "{name: lstm, normalize: cells}", **arm("bn")}
REGRESSION = {"data": "{name: diabetes}"}
TOKENS = {"data": "{name: imdb_case}", "model": "{name: gru}"}

OF_ARMS = [
    (arm("mbn, lambda: 1.5"), "lambda must stay between 0 and 1, not 1.5"),
    (arm("mbn, lambda: {0.4: 0.5}"), "the steps of a schedule start at 0"),
    (arm("mbn, lambda: {kind: linear, initial: 0.1}"), "arms.0.lambda.final: this key is missing"),
    (arm(MBN_RAMP), "a ramp ends after it begins"),
    (arm("mbn, lambda: {kind: stairs}"), "arms.0.lambda"),
    (arm("mbn, lambda: .nan"), "finite number"),
    (arm("mbn, lambda: high"), "arms.0.lambda"),
    (arm("bn, lambda: 0.5"), "lambda belongs to mbn, the arm is bn: remove it"),
    (arm("bn, r_max: 2, d_max: 1"), "r_max, d_max belongs to brn"),
    (arm("brn, r_max: 0.5"), "r_max must stay at least 1"),
    (arm("mbn, memory: 0"), "arms.0.memory: must be at least 1, not 0"),
    (arm("bn, memory_sources: [memory]"), "memory_sources belongs to mbn"),
    (arm("brn, between_variance: false"), "between_variance belongs to mbn"),
    (arm("mbn, memory_sources: [memory, memory]"), "memory_sources"),
    (arm("mbn, population: [last_step]"), "last_step cannot be named"),
    (arm("bln, population: [frozen, frozen]"), "population has the value frozen more than once"),
    (arm("mbn, judged_under: LL--"), "judged_under LL-- needs last_step"),
    (arm("mbn, judged_under: TTTT"), "judged_under TTTT does not name the statistics of mbn: write it like MM--"),
    (arm("bn, judged_under: MM--"), "judged_under MM-- does not name the statistics of bn"),
    (arm("bn, judged_under: ----"), "judged_under ---- does not name the statistics of bn"),
    (arm("bn, judged_under: TT--"), "add the estimate `epoch` or `moving`"),
    (arm("bln, judged_under: BBFF"), "judged_under BBFF blends statistics"),
    (arm("mbn, lamda: 0.1"), "did you mean `lambda`?"),
    (arm("bn, axes: layer"), "axes belongs to ln and bln, the arm is bn"),
    (arm("none, affine: unit"), "affine belongs to ln and bln, the arm is none"),
    (arm("bln, semantics: reference, axes: layer"), "belongs to the semantics paper"),
    (arm("none, epsilon: 0.001"), "epsilon has no effect without normalization"),
    (arm("none, semantics: reference, momentum: 0.9"), "semantics, momentum has no effect without normalization"),
    (arm("none, population: [frozen]"), "population has no effect without normalization"),
    (arm("none, double_forward: true"), "double_forward has no effect without normalization"),
    (arm("none, memory: 3"), "memory belongs to mbn, the arm is none"),
    (arm("none, judged_under: FF--"), "judged_under FF-- does not name the statistics of none: write it like ----"),
    (arm("mbn, fine_tune: {configuration: CC--}"), "CC-- needs with_mini_batch"),
    (arm("bln, fine_tune: {configuration: TT--}"), "configuration TT-- is not one of bln"),
    (arm("bln, fine_tune: {configuration: BBFF}"), "configuration BBFF is not one of bln without blends"),
    (arm("bln, fine_tune: {epochs: 0}"), "arms.0.fine_tune.epochs"),
    (
        {**arm("bln, fine_tune: {}"), "evaluation": "{population: [frozen, moving]}"},
        "arm bln: fine_tune changes the weights",
    ),
    (arms("{method: bln}, {method: bln, axes: layer}"), "two arms are called bln"),
]

OF_MODELS = [
    ({"model": "{name: lstm, normalize: inside}"}, "must be 'layers', 'cells', 'cell_output' or 'cells_and_layers'"),
    ({"model": "{name: lstm, normalize: cells, gain: 0}"}, "greater than 0"),
    ({"model": "{name: lstm, normalize: cells, gain: .inf}"}, "finite number"),
    ({"model": "{name: lstm, gain: 0.1}"}, "gain belongs to the normalization inside recurrent cells"),
    ({"model": "{name: lstm, longer_sequences: refuse}"}, "longer_sequences belongs to the normalization inside"),
    ({"model": "{name: lstm, normalize: cells, longer_sequences: first}"}, "must be 'refuse' or 'last_time_step'"),
    ({"model": "{name: gru, normalize: cell_output}"}, "only an lstm has an output of its cell, not gru"),
    ({"model": "{name: lstm, mask_padding: true}"}, "mask_padding needs normalization inside cells"),
    (
        {"model": "{name: lstm, normalize: cells, mask_padding: true}", **arm("bn")},
        "mask_padding skips the padding of texts",
    ),
    ({"model": "{name: lenet, output_norm: [bn]}"}, "output_norm"),
    ({"model": "{name: mlp, output_norm: [bn, bn]}"}, "more than once"),
]

OF_TRAINING = [
    ({"training": "{epoch_splits: [test]}"}, "needs validation"),
    ({"training": "{epoch_splits: [validation, train]}"}, "epoch_splits"),
    ({"training": "{epoch_splits: [validation, validation]}"}, "more than once"),
    ({"training": "{precision: float16}"}, "precision"),
    ({**arm("ap2"), "training": "{precision: bf16}"}, "bf16"),
    ({**TEXTS, "training": "{precision: bf16}"}, "lstm"),
    ({**TEXTS, "training": "{compile: true}"}, "lstm"),
    ({**arm("mbn"), "training": "{compile: true}"}, "mbn has values that change from step to step"),
    ({**arm("ap2"), "training": "{compile: true}"}, "choose among bn, ln, bln, none"),
    ({"training": "{compile: true}", "evaluation": "{population: [frozen, epoch]}"}, "epoch"),
    ({**TEXTS, "training": "{fused_norms: true}"}, "fused_norms"),
    ({"training": "{fused_norms: true, compile: true}"}, "fused_norms"),
    ({**TEXTS, "training": "{augmentation: {flip: true}}"}, "augmentation applies to images, imdb"),
    ({**TEXTS, "data": "{name: imdb, standardization: channel}"}, "imdb consists of token ids"),
    ({"training": "{initialization: {}}"}, "bln has a mean and a deviation of each example"),
    (
        {**arm("bn"), "training": "{initialization: {gain: uniform}}"},
        "gain uniform belongs to the statistics bn",
    ),
    ({**arm("bn"), "training": "{initialization: {statistics: ln}}"}, "must be 'none', 'bn' or 'ap2'"),
    (
        {**arm("bn"), "training": "{batch_size: 1, initialization: {}}"},
        "deviation over a mini-batch of one example is 0",
    ),
    (
        {**arm("wn"), "model": "{name: mlp, placement: before}"}
        | {"training": "{batch_size: 1, initialization: {statistics: bn}}"},
        "one example is 0",
    ),
    (
        {**TEXTS, **arm("bn"), "training": "{initialization: {statistics: ap2}}"},
        "ap2 cannot scale the recurrent layers of lstm",
    ),
    ({**IN_CELLS, "training": "{initialization: {}}"}, "all time steps share γ and β"),
]

OF_EVALUATION = [
    ({"evaluation": "{blends: [0.5, 0]}"}, "evaluation.blends.1: '0' is not the weight of a blend: give a number"),
    ({"evaluation": "{blends: [1.0]}"}, "evaluation.blends.0: '1' is not the weight of a blend"),
    ({"evaluation": "{blends: [.inf]}"}, "is not the weight of a blend"),
    ({"evaluation": "{blends: [N0]}"}, "'N0' is not the weight of a blend"),
    ({"evaluation": "{blends: [n16]}"}, "'n16' is not the weight of a blend"),
    ({"evaluation": "{blends: [[0.1]]}"}, "[0.1] is not the weight of a blend"),
    ({"evaluation": "{blends: [yes]}"}, "blends does not take yes or no"),
    ({"evaluation": "{blends: 0.1}"}, "must be a list"),
    ({"evaluation": "{blends: [N16, N16.0]}"}, "blends has the value N16 more than once: write each value once"),
    ({**arm("ln"), "evaluation": "{blends: [0.1]}"}, "remove blends, or add an arm with bn, bln, mbn or brn"),
    ({"evaluation": "{splits: [validation]}"}, "splits"),
    ({"evaluation": "{splits: [train, train]}"}, "splits"),
    ({"evaluation": "{splits: train}"}, "splits"),
    ({"evaluation": "{splits: [train], train_examples: some}"}, "train_examples"),
    ({"evaluation": "{train_examples: as_validation}"}, "train_examples has no effect without `splits: [train]`"),
    ({"evaluation": "{splits: [train]}", "ranking": "{split: train}"}, "not on train"),
    ({"evaluation": "{lengths: [160]}"}, "evaluation.lengths: digits does not consist of texts"),
    (
        {"data": "{name: imdb_next_word}", "model": "{name: lstm}", "evaluation": "{lengths: [160]}"},
        "evaluation.lengths: the labels of imdb_next_word",
    ),
    ({**TEXTS, "evaluation": "{lengths: [160, 160]}"}, "160"),
    ({**TEXTS, "evaluation": "{lengths: [0]}"}, "at least 1"),
    ({**IN_CELLS, "evaluation": "{lengths: [40, 160]}"}, "bn inside cells have statistics for the 80 time steps"),
]

OF_TASKS = [
    ({"task": "{name: regression}"}, "task: "),
    ({**REGRESSION, "task": "{name: classification}"}, "task: "),
    ({**REGRESSION, "task": "{name: ranking}"}, "task.name: "),
    ({**REGRESSION, "task": "{name: regression, loss: nll}"}, "task.loss: "),
    ({"task": "{name: classification, loss: squared_error}"}, "task: "),
    ({**REGRESSION, "task": "regression"}, "task: "),
    ({**REGRESSION, "task": "{name: regression, margin: 0.2}"}, "task.margin: "),
    ({"task": "{name: density}"}, "task: "),
    (
        {**REGRESSION, "evaluation": "{metrics: [ece, brier]}"},
        "evaluation.metrics: the metrics of calibration, here ece and brier,",
    ),
    ({**TOKENS, "evaluation": "{metrics: [ece]}"}, "evaluation.metrics: the metrics"),
    ({"evaluation": "{metrics: [nll]}"}, "evaluation.metrics"),
    ({"evaluation": "{metrics: [ece, ece]}"}, "evaluation.metrics"),
    ({**REGRESSION, "probes": "{geometry: 8}"}, "probes.geometry: "),
    ({**TOKENS, "probes": "{geometry: 8}"}, "probes.geometry: "),
    ({**TOKENS, "model": "{name: mlp}"}, "model.name: "),
]

OF_LAYERS = [
    ({"layers": "{scope: groups}"}, "layers: `groups` and the scope `groups` belong together: give both or neither"),
    ({"layers": "{scope: global, groups: {a: ['*']}}"}, "`groups` and the scope `groups` belong together"),
    ({"layers": "{scope: groups, groups: {}}"}, "layers.groups: must have at least 1 entry"),
    ({"layers": "{scope: groups, groups: {a: []}}"}, "layers: the group a has no pattern: name its layers"),
    ({"layers": "{scope: groups, groups: {a: ['']}}"}, "layers.groups.a.0: must have at least 1 character"),
    ({"layers": "{scope: groups, groups: {a: '*'}}"}, "layers.groups.a: must be a list, as in [a, b], not '*'"),
    ({"layers": "{scope: layerwise}"}, "layers.scope: must be 'global', 'per_layer' or 'groups'"),
    ({"layers": "{estimate: memory}"}, "layers: configurations with M, L and C read the memory without naming it"),
    ({"layers": "{estimate: epoch}"}, "layers: the arm bln has no estimate `epoch`: it has frozen"),
    (
        {**arms("{method: bln}, {method: bn, population: [moving]}"), "layers": "{estimate: frozen}"},
        "layers: the arm bn has no estimate `frozen`: it has moving",
    ),
    ({"layers": "{evaluations: 15}"}, "layers.evaluations: must be at least 16, not 15"),
    ({"layers": "{folds: 21}"}, "layers.folds: must be at most 20, not 21"),
    ({"layers": "{folds: yes}"}, "layers: folds does not take yes or no"),
    ({"layers": "{fold: 3}"}, "layers.fold: unknown key; did you mean `folds`?"),
    ({**arm("none"), "layers": "{}"}, "no arm has normalization layers"),
    ({**IN_CELLS, "layers": "{}"}, "normalization inside cells has one configuration"),
    (
        {"data": "{name: imdb}", "model": "{name: lstm, normalize: cells_and_layers}", "layers": "{}"},
        "normalization inside cells has one configuration",
    ),
]

STREAM = {**arm("bn"), "stream": "{}"}
OF_STREAMS = [
    ({"adaptation": "[tent]"}, "adaptation needs streams: add `stream: {}`, or remove adaptation"),
    ({**STREAM, "adaptation": "[tant]"}, "adaptation.0.name: there is no adaptation 'tant'"),
    ({**STREAM, "adaptation": "[tent, tent]"}, "two arms are called tent F: give each a `label`"),
    ({**STREAM, "adaptation": "[{name: tent, learning_rate: .nan}]"}, "adaptation.0.learning_rate: "),
    ({**STREAM, "adaptation": "[{name: tent, rate: 1}]"}, "adaptation.0.rate: the adaptation tent has no option"),
    ({**STREAM, "adaptation": "[{name: none, configuration: --FF}]"}, "arm bn: the configuration --FF does not have"),
    ({**STREAM, "adaptation": "[{name: none, configuration: X}]"}, "none X: arm bn: 'XX--' is not an inference"),
    ({**STREAM, "adaptation": "[{name: none, configuration: A}]"}, "the arm bn has no value for the letter A"),
    ({**STREAM, "adaptation": "[{name: none, configuration: B}]"}, "needs the weight of its stored values"),
    ({**STREAM, "adaptation": "[{name: tent, candidates: {learning_rate: [1.0e-3]}}]"}, "write an arm for each value"),
    ({**STREAM, "evaluation": "{per_slot: true}"}, "stream: mini-batches of a stream have no slots"),
    ({**REGRESSION, "stream": "{}"}, "stream: networks adapt to streams of a classification, the task is regression"),
    ({**TEXTS, "stream": "{mixture: mixed}", "evaluation": "{lengths: [40]}"}, "texts of several lengths cannot be in"),
    ({"stream": "{orders: 0}"}, "stream.orders: must be at least 1, not 0"),
    ({"stream": "{order: {dirichlet: 0}}"}, "stream.concentration: must be greater than 0"),
    (
        {**STREAM, "adaptation": "[{name: none, configuration: M}]"}
        | {"space": "{training.learning_rate: {kind: choice, values: [0.1, 0.2]}}"},
        "space: arm bn cannot take learning_rate=0.1: adaptation: none M: arm bn: the configuration MM--",
    ),
]

OF_SEEDS = [
    ({"seeds": "{until: sunday}"}, "seeds.until: must be 'decided', not 'sunday'"),
    ({"seeds": "{until: decided, at_most: 3}"}, "seeds.at_most: must be greater than 3, not 3"),
    ({"seeds": "{until: decided, at_most: 21}"}, "seeds.at_most: must be at most 20, not 21"),
    ({"seeds": "{until: decided, most: 5}"}, "seeds.most: unknown key; did you mean `at_most`?"),
    ({"seeds": "{at_most: 5}"}, "seeds.until: this key is missing; add it"),
    ({"seeds": "3"}, "seeds: must be a list, as in [a, b], not 3"),
    (
        {"seeds": "{until: decided}", "space": "{training.learning_rate: {kind: choice, values: [0.1, 0.2]}}"},
        "need one point for each arm: list the seeds, or remove space and search",
    ),
]


@pytest.mark.parametrize(
    ("sections", "expected"),
    [*OF_ARMS, *OF_MODELS, *OF_TRAINING, *OF_EVALUATION, *OF_TASKS, *OF_LAYERS, *OF_STREAMS, *OF_SEEDS],
    ids=lambda part: part if isinstance(part, str) else ", ".join(f"{key}: {value}" for key, value in part.items()),
)
def test_what_does_not_fit_is_one_problem(sections, expected):
    (problem,) = problems(study_text(**sections))
    assert expected in problem


@pytest.mark.parametrize(
    ("sections", "space", "expected"),
    [
        (
            arms("{method: none}, {method: bn}"),
            "{arm.epsilon: {kind: choice, values: [0.001, 0.0001]}}",
            "arm none cannot take epsilon=0.001",
        ),
        (
            {"evaluation": "{population: [epoch]}"},
            "{training.compile: {kind: choice, values: [true, false]}}",
            "epoch",
        ),
        (
            arm("ln"),
            "{training.initialization.statistics: {kind: choice, values: [none, bn]}}",
            "arm ln cannot take .*ln has a mean",
        ),
    ],
)
def test_points_of_a_space_are_checked_as_studies(sections, space, expected):
    with pytest.raises(SpecError, match=expected):
        list_planned_trial_specs(study(**sections, space=space))


@pytest.mark.parametrize(
    "sections",
    [
        {**arms("{method: ln}, {method: bln}"), "training": "{initialization: {preserve_function: false}}"},
        {
            **arms("{method: wn}, {method: ap2}, {method: none}"),
            "model": "{name: mlp, placement: before}",
            "training": "{batch_size: 1, initialization: {}}",
        },
        {**IN_CELLS, "training": "{initialization: {preserve_function: false}}"},
        {**IN_CELLS, "evaluation": "{lengths: [40]}"},
        {**IN_CELLS, **arm("ln"), "evaluation": "{lengths: [160]}"},
        {**TEXTS, "evaluation": "{lengths: [160]}"},
        {
            "data": "{name: imdb}",
            "model": "{name: lstm, normalize: cells, longer_sequences: last_time_step}",
            **arm("bn"),
            "evaluation": "{lengths: [160]}",
        },
        {**arms("{method: none}, {method: bn}"), "layers": "{}"},
        {**REGRESSION, "layers": "{}", "probes": "{batch_sizes: [1, 2], epochs: 1, reshuffles: 3}"},
        {**TOKENS, "layers": "{}", "probes": "{batch_sizes: [1, 2], epochs: 1, reshuffles: 3}"},
    ],
    ids=str,
)
def test_what_fits_is_accepted(sections):
    assert study(**sections).name == "study"
