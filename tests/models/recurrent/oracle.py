"""The recurrences as NumPy loops in float64, independent of the layers under test.

The arguments of a cell are its weights, the input (N, T, D), a function norm(name, time step, values), the dropout
mask of h_{t-1}, and whether each step of each example is present (N, T). Where a step is not present, the state stays
as it is, and the norms get the other examples only. Every cell returns all hidden states, (N, T, H).
"""

from __future__ import annotations

import math

import numpy as np


def sigmoid(value):
    return 1 / (1 + math.exp(-value))


def product(weight, rows):
    """Return W v for every row v, (N, len(W))."""
    products = np.zeros((len(rows), len(weight)))
    for n, row in enumerate(rows):
        for k, weight_row in enumerate(weight):
            for value, factor in zip(row, weight_row, strict=True):
                products[n, k] += factor * value
    return products


def no_norm(name, time_step, values):
    """Return the values unchanged, in place of the norms."""
    return values


def layer_norm_of(layer):
    """Return LN of the norms inside a recurrent layer."""

    def normalize(name, time_step, values):
        norm = getattr(layer, name).of_step[time_step]
        mean = values.mean(1, keepdims=True)
        variance = ((values - mean) ** 2).mean(1, keepdims=True)
        gain, offset = (0 if value is None else value.detach().numpy() for value in (norm.weight, norm.bias))
        return gain * (values - mean) / np.sqrt(variance + norm.eps) + offset

    return normalize


def of_present(norm, present):
    """Return a norm of the present examples alone; the others are NaN, so that a use of them is seen."""
    if present is None:
        return norm

    def norm_of_present(name, time_step, values):
        normalized = np.full_like(values, np.nan)
        rows = [n for n in range(len(values)) if present[n][time_step]]
        if rows:
            normalized[rows] = norm(name, time_step, values[rows])
        return normalized

    return norm_of_present


def carry(old, new, present, time_step):
    """Return the new state of present examples and the old state of the others."""
    if present is None:
        return new
    return np.array([new[n] if present[n][time_step] else old[n] for n in range(len(old))])


def input_and_hidden_part(weights, x, time_step, hidden, mask):
    """Return W_x x_t and W_h (m ⊙ h_{t-1})."""
    masked_hidden = hidden if mask is None else hidden * mask
    return product(weights["weight_input"], x[:, time_step]), product(weights["weight_hidden"], masked_hidden)


def rnn(weights, x, norm=no_norm, mask=None, present=None):
    """Return the states of an RNN (LN paper, Eq. 4)."""
    n, steps, _ = x.shape
    units = weights["weight_hidden"].shape[1]
    norm = of_present(norm, present)
    hidden, states = np.zeros((n, units)), []
    for t in range(steps):
        input_part, hidden_part = input_and_hidden_part(weights, x, t, hidden, mask)
        summed = norm("norm", t, input_part + hidden_part)
        new = np.array([[math.tanh(summed[i, k] + weights["bias"][k]) for k in range(units)] for i in range(n)])
        hidden = carry(hidden, new, present, t)
        states.append(hidden)
    return np.stack(states, 1)


def lstm(weights, x, norm=no_norm, mask=None, present=None):
    """Return the states of an LSTM (LN paper, Eq. 20-22), gates in the order o, f, i, g."""
    n, steps, _ = x.shape
    units = weights["weight_hidden"].shape[1]
    norm = of_present(norm, present)
    hidden, cell, states = np.zeros((n, units)), np.zeros((n, units)), []
    for t in range(steps):
        input_part, hidden_part = input_and_hidden_part(weights, x, t, hidden, mask)
        summed = norm("norm_hidden", t, hidden_part) + norm("norm_input", t, input_part)
        new_cell = np.zeros((n, units))
        for i in range(n):
            for k in range(units):
                f, w, g = (summed[i, gate * units + k] + weights["bias"][gate * units + k] for gate in (1, 2, 3))
                new_cell[i, k] = sigmoid(f) * cell[i, k] + sigmoid(w) * math.tanh(g)
        cell, normalized_cell = carry(cell, new_cell, present, t), norm("norm_cell", t, new_cell)
        new_hidden = np.array(
            [
                [sigmoid(summed[i, k] + weights["bias"][k]) * math.tanh(normalized_cell[i, k]) for k in range(units)]
                for i in range(n)
            ]
        )
        hidden = carry(hidden, new_hidden, present, t)
        states.append(hidden)
    return np.stack(states, 1)


def gru(weights, x, norm=no_norm, mask=None, present=None):
    """Return the states of a GRU (LN paper, Eq. 26-28), in the order z, r, candidate."""
    n, steps, _ = x.shape
    units = weights["weight_hidden"].shape[1]
    norm = of_present(norm, present)
    hidden, states = np.zeros((n, units)), []
    for t in range(steps):
        input_part, hidden_part = input_and_hidden_part(weights, x, t, hidden, mask)
        hidden_gates = norm("norm_hidden", t, hidden_part[:, : 2 * units])
        gates = hidden_gates + norm("norm_input", t, input_part[:, : 2 * units])
        input_candidate = norm("norm_candidate", t, input_part[:, 2 * units :])
        hidden_candidate = norm("norm_recalled", t, hidden_part[:, 2 * units :])
        new_hidden = np.zeros((n, units))
        for i in range(n):
            for k in range(units):
                z = sigmoid(gates[i, k] + weights["bias"][k])
                r = sigmoid(gates[i, units + k] + weights["bias"][units + k])
                candidate = math.tanh(
                    input_candidate[i, k] + weights["bias"][2 * units + k] + r * hidden_candidate[i, k]
                )
                new_hidden[i, k] = (1 - z) * hidden[i, k] + z * candidate
        hidden = carry(hidden, new_hidden, present, t)
        states.append(hidden)
    return np.stack(states, 1)


CELLS = {"rnn": rnn, "lstm": lstm, "gru": gru}
