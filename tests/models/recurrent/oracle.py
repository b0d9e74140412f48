"""The recurrences written out as NumPy loops in float64, independent of the layers under test.

A cell is given its weights, the input (N, T, D), what its norms do (norm(name, step, values)) and the dropout mask of
h_{t-1}. Every function returns all hidden states, (N, T, H).
"""

from __future__ import annotations

import math

import numpy as np


def sigmoid(value):
    return 1 / (1 + math.exp(-value))


def product(weight, rows):
    """W v for every row v, (N, len(W))."""
    out = np.zeros((len(rows), len(weight)))
    for n, row in enumerate(rows):
        for k, line in enumerate(weight):
            for value, factor in zip(row, line, strict=True):
                out[n, k] += factor * value
    return out


def nothing(name, step, values):
    """In place of the norms."""
    return values


def shares(weights, x, step, hidden, mask):
    """W_x x_t and W_h (m ⊙ h_{t-1})."""
    entering = hidden if mask is None else hidden * mask
    return product(weights["weight_input"], x[:, step]), product(weights["weight_hidden"], entering)


def rnn(weights, x, norm=nothing, mask=None):
    """LN paper, Eq. 4."""
    n, steps, _ = x.shape
    units = weights["weight_hidden"].shape[1]
    hidden, states = np.zeros((n, units)), []
    for t in range(steps):
        given, recalled = shares(weights, x, t, hidden, mask)
        total = norm("norm", t, given + recalled)
        hidden = np.array([[math.tanh(total[i, k] + weights["bias"][k]) for k in range(units)] for i in range(n)])
        states.append(hidden)
    return np.stack(states, 1)


def lstm(weights, x, norm=nothing, mask=None):
    """LN paper, Eq. 20-22, gates in the order o, f, i, g."""
    n, steps, _ = x.shape
    units = weights["weight_hidden"].shape[1]
    hidden, cell, states = np.zeros((n, units)), np.zeros((n, units)), []
    for t in range(steps):
        given, recalled = shares(weights, x, t, hidden, mask)
        total = norm("norm_hidden", t, recalled) + norm("norm_input", t, given)
        after = np.zeros((n, units))
        for i in range(n):
            for k in range(units):
                f, w, g = (total[i, part * units + k] + weights["bias"][part * units + k] for part in (1, 2, 3))
                after[i, k] = sigmoid(f) * cell[i, k] + sigmoid(w) * math.tanh(g)
        cell, curved = after, norm("norm_cell", t, after)
        hidden = np.array(
            [
                [sigmoid(total[i, k] + weights["bias"][k]) * math.tanh(curved[i, k]) for k in range(units)]
                for i in range(n)
            ]
        )
        states.append(hidden)
    return np.stack(states, 1)


def gru(weights, x, norm=nothing, mask=None):
    """LN paper, Eq. 26-28, in the order z, r, candidate."""
    n, steps, _ = x.shape
    units = weights["weight_hidden"].shape[1]
    hidden, states = np.zeros((n, units)), []
    for t in range(steps):
        given, recalled = shares(weights, x, t, hidden, mask)
        gates = norm("norm_hidden", t, recalled[:, : 2 * units]) + norm("norm_input", t, given[:, : 2 * units])
        new = norm("norm_candidate", t, given[:, 2 * units :])
        old = norm("norm_recalled", t, recalled[:, 2 * units :])
        after = np.zeros((n, units))
        for i in range(n):
            for k in range(units):
                z = sigmoid(gates[i, k] + weights["bias"][k])
                r = sigmoid(gates[i, units + k] + weights["bias"][units + k])
                candidate = math.tanh(new[i, k] + weights["bias"][2 * units + k] + r * old[i, k])
                after[i, k] = (1 - z) * hidden[i, k] + z * candidate
        hidden = after
        states.append(hidden)
    return np.stack(states, 1)


CELLS = {"rnn": rnn, "lstm": lstm, "gru": gru}
