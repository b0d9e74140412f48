"""Descriptions of the networks and their data sets, without torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bln_search.core.data_set_info import DataSetInfo
from bln_search.core.loss_description import LossDescription
from bln_search.core.model_info import ModelInfo
from bln_search.core.task_plugin import TaskPlugin
from bln_search.core.tasks import TaskName
from bln_search_papers.ln.retrieval_metrics import RETRIEVAL_METRICS

_Number = Annotated[int, Field(ge=1, le=1_024)]

ATTENTIVE_READER = ModelInfo(
    "bln_search_papers.ln.attentive_reader:AttentiveReader",
    options=frozenset({"widths", "embedding", "normalize", "gain"}),
    takes_token_ids=True,
    norm_placements=("cells", "cell_output"),
    data_sets=frozenset({"imdb_cloze"}),
)
DRAW = ModelInfo(
    "bln_search_papers.ln.draw:DRAW",
    options=frozenset({"widths", "normalize", "gain"}),
    own_options={"glimpses": _Number, "latent": Annotated[int, Field(ge=1, le=65_536)], "attention": bool},
    norm_placements=("cell_output", "cells"),
    task=TaskName.DENSITY,
    data_sets=frozenset({"mnist_binarized"}),
)
HANDWRITING = ModelInfo(
    "bln_search_papers.ln.handwriting:Handwriting",
    options=frozenset({"widths", "gain"}),
    own_options={"windows": _Number, "mixtures": _Number},
    takes_several_inputs=True,
    norm_placements=("cells",),
    task=TaskName.DENSITY,
    data_sets=frozenset({"mnist_pen_tracks"}),
)
ORDER_EMBEDDINGS = ModelInfo(
    "bln_search_papers.ln.order_embeddings:OrderEmbeddings",
    options=frozenset({"widths", "embedding", "gain"}),
    takes_token_ids=True,
    takes_several_inputs=True,
    norm_placements=("cells",),
    task="retrieval",
    data_sets=frozenset({"mnist_pair_captions"}),
)
SKIP_THOUGHTS = ModelInfo(
    "bln_search_papers.ln.skip_thoughts:SkipThoughts",
    options=frozenset({"widths", "embedding", "gain"}),
    takes_token_ids=True,
    norm_placements=("cells",),
    data_sets=frozenset({"imdb_sentences"}),
)

IMDB_CLOZE = DataSetInfo(
    "bln_search_papers.ln.imdb_cloze:ENTRY", examples=(7_523, 7_437), text_length=96, has_fixed_length=True
)
IMDB_SENTENCES = DataSetInfo(
    "bln_search_papers.ln.imdb_sentences:ENTRY",
    TaskName.LANGUAGE_MODEL,
    (24_756, 24_737),
    text_length=48,
    has_fixed_length=True,
    models=frozenset({"skip_thoughts"}),
)
MNIST_BINARIZED = DataSetInfo("bln_search_papers.ln.mnist_binarized:ENTRY", TaskName.DENSITY, (60_000, 10_000))
MNIST_PAIR_CAPTIONS = DataSetInfo(
    "bln_search_papers.ln.mnist_pair_captions:ENTRY",
    "retrieval",
    (50_000, 1_000),
    has_several_inputs=True,
    models=frozenset({"order_embeddings"}),
)
MNIST_PAIR_DIGITS = DataSetInfo("bln_search_papers.ln.mnist_pair_digits:ENTRY", TaskName.MULTI_LABEL, (50_000, 10_000))
MNIST_PAIRS = DataSetInfo("bln_search_papers.ln.mnist_pairs:ENTRY", examples=(50_000, 10_000))
MNIST_PEN_TRACKS = DataSetInfo(
    "bln_search_papers.ln.mnist_pen_tracks:ENTRY",
    TaskName.DENSITY,
    (12_000, 2_000),
    has_several_inputs=True,
    models=frozenset({"handwriting"}),
)

RETRIEVAL = TaskPlugin(
    LossDescription("margin ranking loss"),
    score="bln_search_papers.ln.retrieval:RetrievalScore",
    metrics={RETRIEVAL_METRICS: "bln_search_papers.ln.retrieval:RetrievalMetrics"},
    check_labels="bln_search_papers.ln.retrieval:find_label_problem",
    has_models_of_its_own=True,
    compares_examples=True,
    own_options={"similarity": Literal["cosine", "order"], "margin": Annotated[float, Field(gt=0, le=2)]},
)
