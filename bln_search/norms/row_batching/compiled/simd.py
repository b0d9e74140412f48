"""Vectors of sixteen single-precision numbers as a type of Numba, so that kernels decide what is vectorized.

LLVM lowers a vector to the registers of the processor: one with AVX-512, two with AVX2, four with SSE or NEON.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.datamodel.models import PrimitiveModel
from numba.extending import intrinsic, lower_builtin, register_model, type_callable

LANES = 16
"""Numbers of a vector."""

_FLOATS = ir.VectorType(ir.FloatType(), LANES)
_INTEGERS = ir.VectorType(ir.IntType(32), LANES)
_CONTRACT = ("contract",)
"""A product and a sum may become one instruction."""


class VectorType(types.Type):
    """The type of a vector."""

    def __init__(self) -> None:
        super().__init__(name="float32x16")


vector = VectorType()


@register_model(VectorType)
class _VectorModel(PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _FLOATS)


def _splat(builder: Any, value: Any) -> Any:
    """Return a vector with `value` in all lanes."""
    kind = ir.VectorType(value.type, LANES)
    single = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(single, ir.Constant(kind, ir.Undefined), mask)


def _to_vector(context: Any, builder: Any, value: Any, kind: Any) -> Any:
    """Return a vector, or a number in all lanes."""
    if isinstance(kind, VectorType):
        return value
    return _splat(builder, context.cast(builder, value, kind, types.float32))


def _define_operator(function: Callable[..., Any], instruction: str) -> None:
    """Define `function` for two vectors, or a vector and a number."""

    @type_callable(function)
    def type_operator(_context: Any) -> Callable[..., Any]:
        def typer(a: Any, b: Any) -> Any:
            return vector if isinstance(a, VectorType) or isinstance(b, VectorType) else None

        return typer

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b = (_to_vector(context, builder, *pair) for pair in zip(args, signature.args, strict=True))
        return getattr(builder, instruction)(a, b, flags=_CONTRACT)

    for kinds in ((VectorType, VectorType), (VectorType, types.Number), (types.Number, VectorType)):
        lower_builtin(function, *kinds)(lower)


for _function, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _define_operator(_function, _instruction)


def _pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Return a pointer to the vector that begins at an index of an array."""
    array = context.make_array(signature.args[0])(context, builder, args[0])
    address = builder.gep(array.data, [context.cast(builder, args[1], signature.args[1], types.intp)])
    return builder.bitcast(address, _FLOATS.as_pointer())


@intrinsic
def load(_typing: Any, array: Any, index: Any) -> Any:
    """Return sixteen consecutive numbers of a one-dimensional float32 array, from `index` on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_pointer(context, builder, signature, args), align=4)

    return vector(array, index), generate


@intrinsic
def store(_typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Write a vector to sixteen consecutive numbers of an array, from `index` on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _pointer(context, builder, signature, args), align=4)
        return context.get_dummy_value()

    return types.void(array, index, value), generate


@intrinsic
def broadcast(_typing: Any, array: Any, index: Any) -> Any:
    """Return a vector with one number of an array in all lanes. The index is not negative."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        index = context.cast(builder, args[1], signature.args[1], types.intp)
        return _splat(builder, builder.load(builder.gep(data, [index])))

    return vector(array, index), generate


@intrinsic
def splat(_typing: Any, value: Any) -> Any:
    """Return a vector with a number in all lanes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _to_vector(context, builder, args[0], signature.args[0])

    return vector(value), generate


def _call(builder: Any, name: str, *args: Any, result: Any = _FLOATS) -> Any:
    """Call a function of LLVM."""
    kind = ir.FunctionType(result, [arg.type for arg in args])
    return builder.call(builder.module.declare_intrinsic(name, fnty=kind), args)


@intrinsic
def sqrt(_typing: Any, value: Any) -> Any:
    """Return the square root of each lane."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return _call(builder, "llvm.sqrt.v16f32", args[0])

    return vector(value), generate


def _define_selection(comparison: str) -> Any:
    """Return a function that selects between two vectors where `a comparison b` is true of two others."""

    @intrinsic
    def select(_typing: Any, a: Any, b: Any, if_true: Any, if_false: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values = [_to_vector(context, builder, *pair) for pair in zip(args, signature.args, strict=True)]
            return builder.select(builder.fcmp_ordered(comparison, *values[:2]), *values[2:])

        return vector(a, b, if_true, if_false), generate

    return select


select_if_less = _define_selection("<")
select_if_equal = _define_selection("==")


@intrinsic
def sum_of_lanes(_typing: Any, value: Any) -> Any:
    """Return the sum of the sixteen numbers."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.FloatType(), [ir.FloatType(), _FLOATS])
        function = builder.module.declare_intrinsic("llvm.vector.reduce.fadd.v16f32", fnty=kind)
        return builder.call(function, [ir.Constant(ir.FloatType(), 0.0), args[0]], fastmath=("reassoc",))

    return types.float32(value), generate


@intrinsic
def power_of_two(_typing: Any, exponent: Any) -> Any:
    """Return 2ⁿ of lanes with whole numbers n from -126 to 127."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        biased = builder.add(builder.fptosi(args[0], _INTEGERS), _constant(127))
        return builder.bitcast(builder.shl(biased, _constant(23)), _FLOATS)

    return vector(exponent), generate


@intrinsic
def exponent_of(_typing: Any, value: Any) -> Any:
    """Return n of positive normal numbers m·2ⁿ with 1 ≤ m < 2."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        bits = builder.lshr(builder.bitcast(args[0], _INTEGERS), _constant(23))
        return builder.sitofp(builder.sub(bits, _constant(127)), _FLOATS)

    return vector(value), generate


@intrinsic
def mantissa_of(_typing: Any, value: Any) -> Any:
    """Return m of positive normal numbers m·2ⁿ with 1 ≤ m < 2."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        bits = builder.and_(builder.bitcast(args[0], _INTEGERS), _constant(0x007FFFFF))
        return builder.bitcast(builder.or_(bits, _constant(0x3F800000)), _FLOATS)

    return vector(value), generate


@intrinsic
def round_to_integer(_typing: Any, value: Any) -> Any:
    """Return the nearest whole number of each lane."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return _call(builder, "llvm.nearbyint.v16f32", args[0])

    return vector(value), generate


def _constant(value: int) -> Any:
    return ir.Constant(_INTEGERS, [value] * LANES)
