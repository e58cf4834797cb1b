"""Tensors of one kind of number for the emulated kernels, and how close a result must come to what is due."""

import re
from ctypes import Structure, c_float, c_int32, c_int64, c_uint32, c_void_p

import numpy as np

# Bytes beside each tensor that must stay as they are.
EDGE, FILLING = 4096, 0xA5
# Those of the engine's own check, `src/engine/kernels/check.rs`: relative and absolute.
TOLERANCES = {"f32": (2e-5, 2e-5), "f16": (1 / 2048, 1e-4), "bf16": (1 / 256, 1e-4)}


def structs_of(source):
    """The structs of arguments, by name, as ctypes has them."""
    types = {"i64": c_int64, "u32": c_uint32, "int": c_int32, "float": c_float}
    for name, body in re.findall(r"^struct (\w+) \{\n(.*?)^\};", source, re.M | re.S):
        fields = re.findall(r"^  (?:const )?(\w+) (\*?)(\w+);", body, re.M)
        fields = [(field, c_void_p if star else types[kind]) for kind, star, field in fields]
        types[name] = type(name, (Structure,), {"_fields_": fields})
    return types


def wave(size, pace):
    """Numbers between -1 and 1 that do not repeat."""
    steps = np.arange(np.prod(size)) * pace
    return (np.sin(steps) * 0.6 + np.cos(steps * 0.0137) * 0.4).reshape(size)


class Tensors:
    """Makes tensors of one kind in memory with edges, and looks at the edges."""

    def __init__(self, kind):
        self.kind = kind
        # Numbers in 16 bytes.
        self.piece = 4 if kind == "f32" else 8
        self._memory = []

    def tensor(self, numbers, dtype=np.float32):
        """A copy of `numbers`; what a kernel does to it is seen in it."""
        numbers = np.ascontiguousarray(numbers, dtype)
        memory = np.full(numbers.nbytes + 2 * EDGE, FILLING, np.uint8)
        self._memory.append(memory)
        tensor = memory[EDGE:-EDGE].view(dtype).reshape(numbers.shape)
        tensor[...] = numbers
        return tensor

    def elems(self, numbers):
        """The same in the kind of the kernels; bf16 is kept in its bits."""
        numbers = self.narrowed(numbers)
        return self.tensor(numbers, numbers.dtype)

    def narrowed(self, numbers):
        numbers = np.asarray(numbers, np.float32)
        if self.kind != "bf16":
            return numbers.astype(np.float16 if self.kind == "f16" else np.float32)
        # To the nearest, ties to even.
        bits = numbers.view(np.uint32).astype(np.uint64)
        nearest = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        return np.where(np.isnan(numbers), 0x7FC0, nearest).astype(np.uint16)

    def widened(self, elems):
        """In f64, to compute with."""
        if elems.dtype == np.uint16:
            elems = (elems.astype(np.uint32) << 16).view(np.float32)
        return elems.astype(np.float64)

    def wrote_beside(self):
        """Whether an edge has changed since the last call. The tensors are gone."""
        edges = [edge for memory in self._memory for edge in (memory[:EDGE], memory[-EDGE:])]
        self._memory.clear()
        return any((edge != FILLING).any() for edge in edges)

    def share_of_allowed(self, found, due):
        """The worst error as a share of what is allowed. Where `due` is of the same kind, the very bits are due."""
        if due.dtype == found.dtype:
            return 0.0 if due.tobytes() == found.tobytes() else np.inf
        relative, absolute = TOLERANCES["f32" if found.dtype == np.float32 else self.kind]
        found, odd = self.widened(found), ~np.isfinite(due)
        if not np.array_equal(found[odd], due[odd], equal_nan=True):
            return np.inf
        found, due = found[~odd], due[~odd]
        share = np.abs(found - due) / (np.abs(due) * relative + absolute)
        return np.inf if np.isnan(share).any() else float(share.max())
