"""Compile the Triton kernels for GPUs, which needs no GPU, and print the sizes of their programs; see `test_triton`."""

from __future__ import annotations

import itertools
import json
import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from bln_search.norms.fused import triton_kernels

CONSTANTS = {"KIND": 1, "BETWEEN": True, "HAS_BATCH": True, "HAS_FEATURE": True}
TILES = {"CHANNELS": 8, "ROWS": 256, "GROUPS": 64, "ELEMENTS": 32}
NUMBERS = ("epsilon", "share", "own_share", "own_variance_factor", "r_max", "d_max", "batch_weight", "feature_weight")
KERNELS = ("batch_statistics_kernel", "normalize_kernel", "gradient_sums_kernel", "input_gradient_kernel")
COMPUTE_CAPABILITIES = (80, 90)


def type_of_argument(name):
    if name.endswith("_ptr"):
        return "*fp32"
    if name in CONSTANTS or name in TILES:
        return "constexpr"
    return "fp32" if name in NUMBERS else "i32"


def compile_kernel(name, capability, constants):
    kernel = getattr(triton_kernels, name)
    names = kernel.arg_names
    values = {(names.index(key),): value for key, value in (constants | TILES).items() if key in names}
    source = ASTSource(kernel, {key: type_of_argument(key) for key in names}, values)
    return len(triton.compile(source, target=GPUTarget("cuda", capability, 32)).asm["cubin"])


def main():
    sizes = {
        f"{name} sm_{capability}": compile_kernel(name, capability, CONSTANTS)
        for name, capability in itertools.product(KERNELS, COMPUTE_CAPABILITIES)
    }
    for kind in (0, 2):
        sizes[f"batch statistics of kind {kind}"] = compile_kernel(KERNELS[0], 90, {**CONSTANTS, "KIND": kind})
    for pair in ((True, False), (False, True)):
        constants = {**CONSTANTS, "HAS_BATCH": pair[0], "HAS_FEATURE": pair[1]}
        sizes |= {f"{name} {pair}": compile_kernel(name, 90, constants) for name in KERNELS[1:]}
    json.dump(sizes, sys.stdout)


if __name__ == "__main__":
    main()
