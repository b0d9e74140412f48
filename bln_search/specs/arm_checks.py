"""Whether an arm can be trained as a study says: what its method does not combine with."""

from __future__ import annotations

from bln_search.core.enums import PopulationEstimate
from bln_search.core.method import Method
from bln_search.specs.sections.arm import ArmSpec
from bln_search.specs.sections.evaluation import EvaluationSpec
from bln_search.specs.sections.initialization import ScalingStatistics
from bln_search.specs.sections.model import ModelSpec
from bln_search.specs.sections.precision import TrainingPrecision
from bln_search.specs.sections.training import TrainingSpec


def check_arm_can_be_trained(
    arm: ArmSpec, training: TrainingSpec, evaluation: EvaluationSpec, model: ModelSpec
) -> None:
    """Raise ValueError where an arm cannot start, be trained or be compiled as the specification says."""
    check_checkpoint_selection_configuration(arm, evaluation)
    _check_initialization(arm.method, training, model)
    _check_precision_and_compilation(arm, training, evaluation, model)


def check_checkpoint_selection_configuration(arm: ArmSpec, evaluation: EvaluationSpec) -> None:
    """Raise ValueError if the configuration that selects the epoch reads estimates that training does not collect."""
    estimates = arm.population or evaluation.population
    if arm.checkpoint_selection_configuration.uses_population and not any(
        estimate.is_available_in_training for estimate in estimates
    ):
        raise ValueError(
            f"arm {arm.label}: judged_under {arm.checkpoint_selection_configuration} reads population values during "
            "training; "
            "add the estimate `epoch` or `moving` to its population"
        )
    if arm.fine_tune is not None and set(estimates) != {PopulationEstimate.FROZEN}:
        raise ValueError(
            f"arm {arm.label}: fine_tune changes the weights after the training in which `epoch` and `moving` are "
            "collected: give the arm `population: [frozen]` alone"
        )


def _check_initialization(method: Method, training: TrainingSpec, model: ModelSpec) -> None:
    spec = training.initialization
    if spec is None:
        return
    if spec.preserve_function and method.has_feature_statistics:
        raise ValueError(
            f"training: initialization: {method} has a mean and a deviation of each example, so that no γ and β "
            "preserve the function of the network without normalization: set preserve_function to false, or choose "
            "other methods than ln and bln"
        )
    if model.info.is_recurrent and spec.statistics is not ScalingStatistics.NONE:
        raise ValueError(
            f"training: initialization: statistics {spec.statistics} cannot scale the recurrent layers of "
            f"{model.name}, whose outputs have other statistics at each time step: set statistics to none"
        )
    if model.normalizes_inside_recurrent_cells and spec.preserve_function and method.statistics:
        raise ValueError(
            "training: initialization: inside cells all time steps share γ and β, so that they cannot preserve the "
            "function: set preserve_function to false, or model.normalize to layers"
        )
    needs_batch = method.has_batch_statistics and not method.computes_statistics_from_weights and spec.preserve_function
    if training.batch_size == 1 and (needs_batch or spec.statistics is ScalingStatistics.BN):
        raise ValueError(
            "training: initialization: the deviation over a mini-batch of one example is 0: set batch_size to at "
            "least 2, or statistics and methods to those that do not read the mini-batch"
        )


def _check_precision_and_compilation(
    arm: ArmSpec, training: TrainingSpec, evaluation: EvaluationSpec, model: ModelSpec
) -> None:
    method, estimates = arm.method, arm.population or evaluation.population
    is_recurrent = model.info.is_recurrent
    if training.precision is TrainingPrecision.BF16 and method.computes_statistics_from_weights:
        raise ValueError(
            f"training: precision: bf16 would round the statistics that {method} computes from the weights: "
            "set precision to float32 or tf32"
        )
    if training.precision is TrainingPrecision.BF16 and is_recurrent:
        raise ValueError(
            f"training: precision: bf16 would round the states of {model.name} at every time step: "
            "set precision to float32 or tf32"
        )
    if training.fused_norms and (is_recurrent or training.compile):
        reason = "the layers of recurrent models have no fused kernels" if is_recurrent else "compile fuses them itself"
        raise ValueError(f"training: fused_norms: {reason}: remove fused_norms")
    if not training.compile:
        return
    if is_recurrent:
        raise ValueError(f"training: compile: {model.name} has loops over time steps: remove compile")
    if not method.description.is_compilable:
        compiled = ", ".join(method for method in Method if method.description.is_compilable)
        raise ValueError(
            f"training: compile: {method} has values that change from step to step, each of which would be compiled "
            f"anew: remove compile, or choose among {compiled}"
        )
    collected = [estimate for estimate in estimates if estimate.is_available_in_training]
    if collected:
        raise ValueError(
            f"training: compile: the population {collected[0]} is collected inside the training steps: remove compile, "
            "or set population to frozen"
        )
