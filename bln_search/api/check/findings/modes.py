"""Causes in the modes of modules: what draws random numbers, reads the mini-batch, or keeps state."""

from __future__ import annotations

from bln_search.api.check.findings.making import RECALIBRATE, make_finding, name_layers, sentence_start
from bln_search.api.check.observations import Observations
from bln_search.ranking.network_check import Cause, Finding, Variant

_EVALUATE = "model.eval()"

_EXPLAINING_SHARE = 0.5
"""Part of the distance from the training data's statistics that copies must differ by to explain it."""


def find_layers_in_training_mode(seen: Observations) -> Finding | None:
    """Normalization layers in training mode in a network that is in evaluation mode."""
    layers = [name for name, layer in seen.layers.items() if layer.in_training_mode]
    if not layers:
        return None
    frozen = [name for name in layers if seen.layers[name].is_frozen]
    if seen.is_training and not frozen:
        return None
    if frozen:
        return make_finding(
            seen,
            Cause.FROZEN_LAYERS_IN_TRAINING_MODE,
            f"γ and β of {name_layers(frozen)} are frozen (requires_grad is False), but the layers are in training "
            "mode: they use the statistics of the mini-batch and go on updating the stored ones.",
            "Set frozen layers to evaluation mode after each call of model.train(), or use "
            "torchvision.ops.FrozenBatchNorm2d.",
            variant=Variant.RE_ESTIMATED if seen.is_training else Variant.EVALUATION_MODE,
            code=_EVALUATE,
            layers=frozen,
        )
    return make_finding(
        seen,
        Cause.LAYERS_IN_TRAINING_MODE,
        f"The network is in evaluation mode, and {name_layers(layers)} in training mode, with the statistics of the "
        "mini-batch and updates of the stored ones.",
        "Call model.eval() before inference, and after each call of model.train().",
        variant=Variant.EVALUATION_MODE,
        code=_EVALUATE,
        layers=layers,
    )


def find_randomness(seen: Observations) -> Finding | None:
    """Dropout that is left on, or other random numbers in evaluation mode."""
    names = [name for name, _ in seen.modules_in_training_mode]
    if not seen.is_random:
        return None
    if names:
        kinds = ", ".join(sorted({kind for _, kind in seen.modules_in_training_mode}))
        return make_finding(
            seen,
            Cause.RANDOMNESS,
            f"{sentence_start(name_layers(names))} ({kinds}): in training mode, so outputs for the same input differ.",
            "Call model.eval() before the network is used.",
            variant=Variant.EVALUATION_MODE,
            code=_EVALUATE,
            layers=names,
        )
    return make_finding(
        seen,
        Cause.RANDOMNESS,
        "The network draws random numbers in evaluation mode: outputs for the same input differ.",
        "Let functions such as F.dropout get training=self.training.",
    )


def find_batch_dependence(seen: Observations) -> Finding | None:
    """Outputs of the deployed network that depend on batch-mates."""
    if not seen.depends_on_batch:
        return None
    measured = next((each for each in seen.dependence if each.variant is Variant.DEPLOYED), None)
    by = f" One example's loss changes by up to {measured.largest_change:.3g}." if measured else ""
    without = seen.layers_without_statistics
    layers = f" Without stored statistics (track_running_stats=False): {name_layers(without)}." if without else ""
    return make_finding(
        seen,
        Cause.BATCH_DEPENDENCE,
        f"The output for an example depends on its batch-mates.{layers}{by}",
        "Use stored statistics where results must be repeatable.",
        layers=without,
    )


def find_state(seen: Observations) -> Finding | None:
    """Passes in evaluation mode that change the network."""
    is_explained = any(layer.in_training_mode for layer in seen.layers.values())
    if not seen.keeps_state or is_explained:
        return None
    return make_finding(
        seen,
        Cause.STATE_BETWEEN_BATCHES,
        "A pass changes a buffer or an attribute of the network: the order of the mini-batches matters.",
        "Reset the state before each evaluation, or keep it out of evaluation mode.",
    )


def find_differing_copies(seen: Observations) -> Finding | None:
    """Copies of the network, as of other processes, with other statistics."""
    if not seen.copies:
        return None
    name, distance = max(seen.copies, key=lambda item: item[1])
    stale = max(seen.distances_to_training_data.values(), default=0.0)
    return make_finding(
        seen,
        Cause.COPIES_DIFFER,
        f"Copies with equal weights store other statistics in {len(seen.copies)} layers, most in {name} (median "
        f"{distance:.2g} deviations): each process estimated its own.",
        "Estimate the statistics of one copy again over all training data and save it, or train with nn.SyncBatchNorm.",
        variant=Variant.RE_ESTIMATED,
        code=RECALIBRATE,
        layers=[name for name, _ in seen.copies],
        has_effect=seen.helps(Variant.RE_ESTIMATED) and distance >= _EXPLAINING_SHARE * stale,
    )
