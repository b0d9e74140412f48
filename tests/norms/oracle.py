"""The formulas of the layers as NumPy loops in float64, independent of the layers under test."""

from __future__ import annotations

import math

import numpy as np


def to_rows(x, feature_axis):
    """Return x as (N, positions, features)."""
    moved = np.moveaxis(x, feature_axis, -1)
    return moved.reshape(moved.shape[0], -1, moved.shape[-1])


def from_rows(rows, shape, feature_axis):
    """Return rows (N, positions, features) in the shape of the input."""
    moved_shape = [n for axis, n in enumerate(shape) if axis != feature_axis] + [shape[feature_axis]]
    return np.moveaxis(rows.reshape(moved_shape), -1, feature_axis)


def batch_mean(rows, pools_positions, p, k):
    """Return E_B over samples, or over samples and positions (BLN Eq. 10)."""
    total = count = 0
    for i in range(rows.shape[0]):
        for q in range(rows.shape[1]) if pools_positions else [p]:
            total += rows[i, q, k]
            count += 1
    return total / count


def batch_mean_square(rows, pools_positions, p, k, centre):
    """Return the mean square distance from `centre` (BLN Eq. 11 without ε)."""
    total = count = 0
    for i in range(rows.shape[0]):
        for q in range(rows.shape[1]) if pools_positions else [p]:
            total += (rows[i, q, k] - centre) ** 2
            count += 1
    return total / count


def feature_mean(rows, i, p):
    """Return E_F over the features of one sample at one position (BLN Eq. 12)."""
    total = 0
    for k in range(rows.shape[2]):
        total += rows[i, p, k]
    return total / rows.shape[2]


def feature_mean_square(rows, i, p, centre):
    """Return the mean square distance from `centre` over features (BLN Eq. 13 without ε)."""
    total = 0
    for k in range(rows.shape[2]):
        total += (rows[i, p, k] - centre) ** 2
    return total / rows.shape[2]


class Formula:
    """The formula of one layer. `population` maps names of statistics to functions of (i, p, k), or is None.

    A statistic of source B is alpha·population + (1 - alpha)·mini-batch, of means and of variances with ε.
    """

    def __init__(self, method, semantics, d, m, gamma, beta, feature_axis=1):
        self.method, self.is_reference, self.d, self.m = method, semantics == "reference", d, m
        self.gamma, self.beta, self.feature_axis = gamma, beta, feature_axis
        self.epsilon = 1e-3 if self.is_reference else 1e-4
        self.pools_positions = method == "bn" or not self.is_reference
        self.alpha = None
        self.around_selected_mean = method != "bn" and not self.is_reference

    def branch_weights(self):
        if self.method == "bn":
            return 1.0, 0.0
        if self.method == "ln":
            return 0.0, 1.0
        root = math.sqrt(self.d)
        return (1 - (1 / self.m + 1e-4)) / root, (1 / self.m - 1e-4) / root

    def __call__(self, x, code="FFFF", population=None):
        rows = to_rows(x, self.feature_axis)
        out = np.empty_like(rows)
        batch_weight, feature_weight = self.branch_weights()
        for i in range(rows.shape[0]):
            for p in range(rows.shape[1]):
                for k in range(rows.shape[2]):
                    total = 0.0
                    if self.method != "ln":
                        mean, deviation = self.batch_statistics(rows, i, p, k, code[:2], population)
                        total += batch_weight * (rows[i, p, k] - mean) / deviation
                    if self.method != "bn":
                        mean, deviation = self.feature_statistics(rows, i, p, k, code[2:], population)
                        total += feature_weight * (rows[i, p, k] - mean) / deviation
                    out[i, p, k] = self.gamma[k] * total + self.beta[k]
        return from_rows(out, x.shape, self.feature_axis)

    def batch_statistics(self, rows, i, p, k, code, population):
        """Return E_B and Std_B (BLN Eq. 18-19; BN Eq. 1-6)."""
        own_mean = batch_mean(rows, self.pools_positions, p, k)
        mean = self.select(code[0], own_mean, lambda: population["batch_mean"](i, p, k))
        centre = mean if self.around_selected_mean else own_mean
        own_variance = batch_mean_square(rows, self.pools_positions, p, k, centre) + self.epsilon
        variance = self.select(code[1], own_variance, lambda: population["batch_deviation"](i, p, k) ** 2)
        return mean, math.sqrt(variance)

    def select(self, letter, own, of_population):
        """Return the value of a statistic from its source."""
        if letter == "F":
            return own
        return of_population() if letter == "T" else self.alpha * of_population() + (1 - self.alpha) * own

    def feature_statistics(self, rows, i, p, k, code, population):
        """Return E_F and Std_F (BLN Eq. 20-21)."""
        own_mean = feature_mean(rows, i, p)
        mean = self.select(code[0], own_mean, lambda: population["feature_mean"](i, p, k))
        centre = mean if self.around_selected_mean else own_mean
        own_variance = feature_mean_square(rows, i, p, centre) + self.epsilon
        variance = self.select(code[1], own_variance, lambda: population["feature_deviation"](i, p, k) ** 2)
        return mean, math.sqrt(variance)


def population(formula, batches, correction="bessel", per_slot=False):
    """Return population values over training mini-batches, as functions of (i, p, k), by loops over the definitions.

    bessel: m/(m-1)·E[σ] (paper) or √(m/(m-1)·E[σ²] + ε) (reference, and BN with m counting positions).
    total: √(E[σ²] + Var[μ] + ε).
    """
    rows = [to_rows(x, formula.feature_axis) for x in batches]
    n, positions, d = rows[0].shape
    means, squares = np.empty((len(rows), positions, d)), np.empty((len(rows), positions, d))
    f_means, f_squares = np.empty((len(rows), n, positions)), np.empty((len(rows), n, positions))
    for b, batch in enumerate(rows):
        for p in range(positions):
            for k in range(d):
                means[b, p, k] = batch_mean(batch, formula.pools_positions, p, k)
                squares[b, p, k] = batch_mean_square(batch, formula.pools_positions, p, k, means[b, p, k])
            for i in range(n):
                f_means[b, i, p] = feature_mean(batch, i, p)
                f_squares[b, i, p] = feature_mean_square(batch, i, p, f_means[b, i, p])
    axes = (0,) + (() if per_slot else (1,)) + ((2,) if formula.pools_positions else ())
    batch_count = n * positions if formula.method == "bn" else n

    def deviation(mean_values, square_values, axis, count):
        epsilon = formula.epsilon
        if correction == "total":
            between = (mean_values**2).mean(axis, keepdims=True) - mean_values.mean(axis, keepdims=True) ** 2
            return np.sqrt(square_values.mean(axis, keepdims=True) + between + epsilon)
        factor = count / (count - 1)
        if formula.is_reference or formula.method == "bn":
            return np.sqrt(factor * square_values.mean(axis, keepdims=True) + epsilon)
        return factor * np.sqrt(square_values + epsilon).mean(axis, keepdims=True)

    b_mean = np.broadcast_to(means.mean(0, keepdims=True), (1, positions, d))[0]
    b_deviation = np.broadcast_to(deviation(means, squares, (0,), batch_count), (1, positions, d))[0]
    f_mean = np.broadcast_to(f_means.mean(axes, keepdims=True), (1, n, positions))[0]
    f_deviation = np.broadcast_to(deviation(f_means, f_squares, axes, n), (1, n, positions))[0]
    return {
        "batch_mean": lambda i, p, k: b_mean[p, k],
        "batch_deviation": lambda i, p, k: b_deviation[p, k],
        "feature_mean": lambda i, p, k: f_mean[i, p],
        "feature_deviation": lambda i, p, k: f_deviation[i, p],
    }


def moved_population(formula, x, code, population):
    """Return the population values after a mini-batch, by the recursion of source E: s = w·s + (1 - w)·b.

    Of deviations the variances move; of feature statistics the mean over the examples, and over positions if pooled.
    """
    rows = to_rows(x, formula.feature_axis)
    n, positions, d = rows.shape
    moved = dict(population)
    if formula.method != "ln":
        batch = np.empty((2, positions, d))
        for p in range(positions):
            for k in range(d):
                batch[:, p, k] = formula.batch_statistics(rows, 0, p, k, code[:2], population)
        moved |= _replace_moving("batch", code[:2], lambda index, i, p, k: batch[index, p, k])
    if formula.method != "bn":
        feature = np.empty((2, n, positions))
        for i in range(n):
            for p in range(positions):
                mean, deviation = formula.feature_statistics(rows, i, p, 0, code[2:], population)
                feature[:, i, p] = mean, deviation**2
        axes = (1, 2) if formula.pools_positions else (1,)
        mean = np.broadcast_to(feature.mean(axes, keepdims=True), (2, 1, positions))[:, 0]
        moved |= _replace_moving("feature", code[2:], lambda index, i, p, k: mean[index, p] ** (0.5 if index else 1))
    return moved


def _replace_moving(pair, code, value):
    return {
        f"{pair}_{name}": lambda i, p, k, index=index: value(index, i, p, k)
        for index, name in enumerate(("mean", "deviation"))
        if code[index] == "E"
    }
