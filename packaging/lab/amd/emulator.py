"""Runs the kernels of a code object on the CPU, in the emulator of RDNA that tinygrad tests its own kernels with.

That is in the repository of tinygrad and in none of its packages. Nothing of it is changed on the disk; `_teach` adds
at run time what HIPRTC's kernels need beyond tinygrad's.
"""

import ctypes
import os
import struct
import sys

from code_object import CodeObject

# What tinygrad calls the generations. It knows no older one.
GENERATIONS = {"gfx11": "rdna3", "gfx12": "rdna4"}

# What `launch` fills in: the arguments' address in the first two scalars and wave 32; f32 keeps subnormal numbers.
PROPERTIES, PROPERTIES_MASK = 0x408, 0x47F
FLOAT_MODE = 0xF0


def generation(target):
    return GENERATIONS.get(target[:5])


def load(tinygrad, cache):
    """The emulator, with its compiler and its cache from our folder."""
    os.environ.update(DEV="CPU", CC=str(cache / "clang"), CACHEDB=str(cache / "tinygrad.db"))
    sys.path.insert(0, str(tinygrad))
    sys.pycache_prefix = str(cache / "pycache")
    from test.mockgpu.amd import emu

    _teach(emu)
    return emu


def _teach(emu):
    from tinygrad.renderer import amd

    class Context(emu._Ctx):
        __slots__ = ()

        def compile_sop_pcode(self, op, srcs, *rest):
            # s_getpc_b64 leads to tables of constants, and the emulator has no word for the program counter.
            return super().compile_sop_pcode(op, dict(srcs, PC=self.rpc()), *rest)

    class SharedMemory(Context):
        __slots__ = ()

        def rvgpr_dyn(self, reg, lane, valid=None):
            # Lanes that are switched off would be read for too, at whatever address they hold, which ends the process.
            is_on = emu._lane_active(self.rexec(), lane)
            return is_on.where(super().rvgpr_dyn(reg, lane, valid), emu._c(0))

    def shared_memory(inst, context):
        context.__class__ = SharedMemory
        return emu._compile_mem_op(inst, context)

    def global_memory(inst, context):
        # buffer_gl0_inv and global_inv stand at barriers. No cache is emulated that they could empty.
        if inst.op.name.endswith("_INV"):
            return emu.UOp.sink(*context.inc_pc())
        return emu._compile_mem_op(inst, context)

    emu._Ctx = Context
    amd._load_formats()["rdna3"].append(emu.ir3.MUBUF)
    emu._INST_HANDLERS |= {
        emu.ir3.DS: shared_memory,
        emu.ir4.DS: shared_memory,
        emu.ir3.MUBUF: global_memory,
        emu.ir4.VGLOBAL: global_memory,
    }
    # Subnormal numbers are kept, as FLOAT_MODE says.
    emu._get_ftz_lib = lambda: (None, 0)


class Kernels:
    """A code object in memory, ready to run."""

    def __init__(self, emu, path, target):
        self.emu, self.object, self.generation = emu, CodeObject(path), generation(target)
        segments = self.object.segments
        self.size = max(address + size for _, address, size in segments)
        # What lies behind the last instruction is looked at, and not run.
        self.memory = ctypes.create_string_buffer(self.size + 0x1000)
        self.base = -(-ctypes.addressof(self.memory) // 256) * 256
        for place, address, size in segments:
            ctypes.memmove(self.base + address, self.object.data[place : place + size], size)

    def launch(self, name, blocks, threads, args):
        """Runs a kernel that takes one struct, `args`, of ctypes: `blocks` along x, `threads` along x and y."""
        facts, descriptor = self.object.kernels[name], self.base + self.object.symbols[f"{name}.kd"]
        entry, resources1, resources2, properties = struct.unpack("<16xq24xIIH6x", ctypes.string_at(descriptor, 64))
        if properties & PROPERTIES_MASK != PROPERTIES or resources1 >> 12 & 0xFF != FLOAT_MODE:
            raise ValueError(f"{name} expects to be started in a way that is not emulated")
        if facts[".private_segment_fixed_size"]:
            raise ValueError(f"{name} has scratch memory, which is not emulated")
        own, *hidden = facts[".args"]
        if own[".size"] != ctypes.sizeof(args):
            raise ValueError(f"{name} takes {own['.size']} bytes, its struct has {ctypes.sizeof(args)}")
        memory = ctypes.create_string_buffer(facts[".kernarg_segment_size"] + 64)
        start = -(-ctypes.addressof(memory) // 64) * 64
        ctypes.memmove(start + own[".offset"], ctypes.addressof(args), own[".size"])
        for arg in hidden:
            value = _hidden(arg[".value_kind"], blocks, threads)
            ctypes.memmove(start + arg[".offset"], value.to_bytes(arg[".size"], "little"), arg[".size"])
        # The size of LDS is filled in by whoever launches, in granules.
        granules = -(-facts[".group_segment_fixed_size"] // 512)
        resources2 = resources2 & ~(0x1FF << 15) | granules << 15
        user = ([start & 0xFFFFFFFF, start >> 32] + [0] * 14)[: resources2 >> 1 & 0x1F]
        grid = blocks, 1, 1, *threads, 1
        self.emu.run_asm(descriptor + entry, self.size, *grid, start, resources2, 0, self.generation, user)


def _hidden(kind, blocks, threads):
    """What HIP puts behind a kernel's own arguments."""
    sizes = {"hidden_block_count_": (blocks, 1, 1), "hidden_group_size_": (*threads, 1)}.get(kind[:-1])
    if sizes:
        return sizes["xyz".index(kind[-1])]
    return 3 if kind == "hidden_grid_dims" else 0
