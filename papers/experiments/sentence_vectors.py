"""Polarity of held-out film reviews from the sentence vectors of skip-thoughts networks.

`python -m papers.experiments.sentence_vectors --save` reads the networks of a finished study. The vector of a review is
the mean of the vectors of its sentences. A logistic regression is trained on the vectors of some test reviews, and its
accuracy is that on others; the network was trained on neither. The same is measured for each network with its first
weights.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bench.support.reporting import finish
from bln_search.data.imdb import get_review_source
from bln_search.data.imdb_next_word import WORDS
from bln_search.data.reviews import Reviews
from bln_search.data.texts import build_vocabulary, encode_last_words_left_padded
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.loaded_network import build_initialized_network, use_trained_network
from bln_search.norms.network.layers import evaluation_mode
from bln_search.settings import load_settings
from bln_search.specs.records import TrialRecord
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search_papers.ln.imdb_cloze import split_sentences_into_words
from bln_search_papers.ln.imdb_sentences import SENTENCE_LENGTH
from bln_search_papers.ln.skip_thoughts import SkipThoughts

_SENTENCES_AT_ONCE = 512
_C = [1e-3, 1e-2, 1e-1, 1.0]


class ReviewSentences:
    """Token ids of the sentences of some reviews, with the polarity of each review.

    Args:
        reviews: texts and labels by split.
        vocabulary: token ids of words.
        start: index of the first test review, in a fixed random order.
        number: of reviews.
    """

    def __init__(self, reviews: Reviews, vocabulary: Mapping[str, int], start: int, number: int) -> None:
        order = np.random.default_rng(0).permutation(len(reviews["test"]))[start : start + number]
        chosen = [reviews["test"][index] for index in order]
        sentences = [split_sentences_into_words(text) or [[]] for text, _ in chosen]
        self.labels = np.array([label for _, label in chosen])
        self.review_of_sentence = np.repeat(np.arange(number), [len(review) for review in sentences])
        encoded = [
            encode_last_words_left_padded(words, vocabulary, SENTENCE_LENGTH)
            for review in sentences
            for words in review
        ]
        self.token_ids = torch.from_numpy(np.stack(encoded).astype(np.int64))

    @torch.no_grad()
    def compute_vectors(self, network: SkipThoughts) -> NDArray[np.float64]:
        """Return the mean vector of the sentences of each review, (number, units)."""
        with evaluation_mode(network):
            vectors = torch.cat([network.encode(part) for part in torch.split(self.token_ids, _SENTENCES_AT_ONCE)])
        sums = np.zeros((len(self.labels), vectors.shape[1]))
        np.add.at(sums, self.review_of_sentence, vectors.double().numpy())
        return sums / np.bincount(self.review_of_sentence)[:, None]


def measure_accuracy(network: SkipThoughts, training: ReviewSentences, test: ReviewSentences) -> float:
    """Return the accuracy on test reviews of a logistic regression on the vectors of training reviews."""
    classifier = GridSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=2_000)), {"logisticregression__C": _C}, cv=5
    )
    classifier.fit(training.compute_vectors(network), training.labels)
    return float(classifier.score(test.compute_vectors(network), test.labels))


def measure_trials(
    trials: Sequence[TrialRecord], environment: ExecutionEnvironment, parts: tuple[ReviewSentences, ReviewSentences]
) -> dict[str, dict[str, list[float]]]:
    """Return for each arm the accuracies by seed, with trained and with first weights."""
    accuracies: dict[str, dict[str, list[float]]] = {}
    for trial in trials:
        with use_trained_network(trial.spec, trial.get_checkpoint_record(), environment) as loaded:
            networks = {"trained": loaded.network, "first weights": build_initialized_network(trial.spec, loaded.data)}
            for weights, network in networks.items():
                assert isinstance(network, SkipThoughts)
                accuracy = measure_accuracy(network, *parts)
                accuracies.setdefault(trial.arm, {}).setdefault(weights, []).append(accuracy)
                print(f"{trial.arm} seed {trial.seed}, {weights}: {100 * accuracy:.2f} %", flush=True)
    return accuracies


def main() -> None:
    """Measure every finished trial of the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", help="database URL of the study; by default that of the settings")
    parser.add_argument("--data", type=Path, help="folder of data sets")
    parser.add_argument("--study", default="skip_thoughts_small")
    parser.add_argument("--reviews", type=int, default=4_000, help="reviews to train the classifier, and to test it")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    settings = load_settings()
    folder = options.data or settings.data_folder
    environment = ExecutionEnvironment(folder, settings.cache, settings.checkpoint_store)
    with closing(open_and_upgrade_ledger(options.database or settings.database_url)) as ledger:
        study = ledger.studies.get_by_name_or_id(options.study)
        trials = ledger.trials.list_finished_full_trials(study.id)
    reviews = get_review_source([folder / "imdb", folder]).files.read_reviews()
    words = (
        [word for sentence in split_sentences_into_words(text) for word in sentence] for text, _ in reviews["train"]
    )
    vocabulary = build_vocabulary(words, WORDS)
    number = options.reviews
    parts = ReviewSentences(reviews, vocabulary, 0, number), ReviewSentences(reviews, vocabulary, number, number)
    result: dict[str, Any] = {
        "study": study.name,
        "reviews": number,
        "accuracy_by_seed": measure_trials(trials, environment, parts),
    }
    finish("sentence_vectors", result, save=options.save)


if __name__ == "__main__":
    main()
