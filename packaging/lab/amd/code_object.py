"""What a code object for an AMD GPU says of its kernels, and what of that must not be.

A code object is an ELF file whose note holds MessagePack; see LLVM's "User Guide for AMDGPU Backend".
"""

import struct
from pathlib import Path

import msgpack

LOAD, NOTE = 1, 4
DYNAMIC_SYMBOLS = 11
# What a block has on all of these GPUs.
LDS_LIMIT = 64 << 10

# The table's columns, and where the note has them.
COLUMNS = {
    "VGPRs": ".vgpr_count",
    "SGPRs": ".sgpr_count",
    "VGPR spills": ".vgpr_spill_count",
    "SGPR spills": ".sgpr_spill_count",
    "scratch": ".private_segment_fixed_size",
    "  LDS": ".group_segment_fixed_size",
    "wave": ".wavefront_size",
}


class CodeObject:
    """`segments`: (place in the file, address, bytes) each, `symbols`: addresses by name, `kernels`: facts by name."""

    def __init__(self, path):
        self.data = Path(path).read_bytes()
        if self.data[:4] != b"\x7fELF":
            raise ValueError(f"{path} is no ELF file")
        self.segments, self.symbols, self.kernels = [], {}, {}
        # The headers of the program, then those of its sections: where they begin, and where their size and count are.
        for kind, _, place, address, _, size, _, _ in self._headers(32, 54, "<IIQQQQQQ"):
            if kind == LOAD:
                self.segments.append((place, address, size))
            elif kind == NOTE:
                self._read_note(place)
        sections = list(self._headers(40, 58, "<IIQQQQIIQQ"))
        for _, kind, _, _, place, size, names_at, _, _, _ in sections:
            if kind == DYNAMIC_SYMBOLS:
                names = sections[names_at][4]
                table = self.data[place : place + size]
                for name, _, _, _, address, _ in struct.iter_unpack("<IBBHQQ", table):
                    self.symbols[self._text(names + name)] = address

    def _headers(self, offset_at, size_at, form):
        (offset,) = struct.unpack_from("<Q", self.data, offset_at)
        size, count = struct.unpack_from("<HH", self.data, size_at)
        return (struct.unpack_from(form, self.data, offset + i * size) for i in range(count))

    def _text(self, at):
        return self.data[at : self.data.index(b"\0", at)].decode()

    def _read_note(self, at):
        name_size, size, _ = struct.unpack_from("<III", self.data, at)
        start = at + 12 + (name_size + 3) // 4 * 4
        for kernel in msgpack.unpackb(self.data[start : start + size])["amdhsa.kernels"]:
            self.kernels[kernel[".name"]] = kernel


def faults(facts):
    """What must not be of a kernel, in words."""
    checks = {
        "spills registers": facts[".vgpr_spill_count"] or facts[".sgpr_spill_count"],
        "has scratch memory": facts[".private_segment_fixed_size"] or facts.get(".uses_dynamic_stack"),
        "is not of wave 32": facts[".wavefront_size"] != 32,
        "has more than 64 KiB of LDS": facts[".group_segment_fixed_size"] > LDS_LIMIT,
    }
    return [words for words, is_so in checks.items() if is_so]


def print_heads():
    print("target   kernel           kind ", *COLUMNS)


def print_rows(target, kind, kernels):
    """A line for each kernel; how many of them have a fault."""
    bad = 0
    for name, facts in kernels.items():
        numbers = (f"{facts[key]:{len(column)}}" for column, key in COLUMNS.items())
        wrong = faults(facts)
        print(f"{target:8} {name:16} {kind:5}", *numbers, *([" WRONG:", ", ".join(wrong)] if wrong else []))
        bad += bool(wrong)
    return bad
