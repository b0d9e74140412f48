"""Tunes the regularization of a classifier of handwritten digits over ten splits of the data."""

import optuna
import optunahub
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import train_test_split


module = optunahub.load_module("pruners/seed_pruner")
images, labels = load_digits(return_X_y=True)


def train(alpha: float, seed: int) -> float:
    """Accuracy on the held-out half of a random split."""
    train_x, test_x, train_y, test_y = train_test_split(
        images, labels, test_size=0.5, random_state=seed
    )
    return RidgeClassifier(alpha=alpha).fit(train_x, train_y).score(test_x, test_y)


def objective(trial: optuna.Trial) -> float:
    alpha = trial.suggest_float("alpha", 1e-2, 1e6, log=True)
    return module.mean_over_seeds(trial, lambda seed: train(alpha, seed), range(10))


study = optuna.create_study(
    direction="maximize",
    pruner=module.SeedPruner(),
    sampler=optuna.samplers.TPESampler(seed=0),
)
study.optimize(objective, n_trials=20)
saved = sum(10 - len(trial.intermediate_values) for trial in study.trials)
print(f"{saved} of 200 trainings were not needed")
print(module.compare(study, seeds=None))
