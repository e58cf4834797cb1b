"""Faults planted into the kernels' source, each of which must be found: whether this tool can tell right from wrong.

Each is one that a change of the kernels could bring. `packaging/lab/amd/amd.py --tinygrad DIR --plant` runs them.
"""

from dataclasses import dataclass

from cases import Cases
from code_object import CodeObject, faults
from emulator import Kernels
from hiprtc import NotCompiled

TARGET = "gfx1151"


@dataclass
class Plant:
    what: str
    # Replaced by what, in the source, once.
    old: str
    new: str
    # Which kernel shows it, in which kind.
    kernel: str
    kind: str
    target: str = TARGET


PLANTS = [
    Plant(
        "a reduction that leaves one wave out",
        "for (int i = 0; i < threads / 32; i++) {\n    sum += partial",
        "for (int i = 1; i < threads / 32; i++) {\n    sum += partial",
        "norm_2",
        "bf16",
    ),
    Plant(
        "a reduction without its barrier",
        "  __syncthreads();\n  float sum = 0.0f;\n  for (int i = 0; i < threads / 32",
        "  float sum = 0.0f;\n  for (int i = 0; i < threads / 32",
        "rms_3",
        "f32",
    ),
    Plant("waves taken for 64 lanes wide", "if (threads <= 32) {", "if (threads <= 64) {", "add_norm_4", "f16"),
    Plant(
        "a lane that is exchanged with the wrong one",
        "x += EXCHANGE(x, mask);",
        "x += EXCHANGE(x, mask ^ 1);",
        "norm_1",
        "f32",
    ),
    Plant(
        "a piece beyond the last",
        "if (piece >= args.pieces) {\n    return;\n  }\n  const u32 per_block",
        "if (piece > args.pieces) {\n    return;\n  }\n  const u32 per_block",
        "expand_blocks",
        "f32",
    ),
    Plant(
        "one pixel too few",
        "const i64 left = args.pixels - first;",
        "const i64 left = args.pixels - first - 1;",
        "channel_moments",
        "f32",
    ),
    Plant("rounding half away from zero", "0x7fffu + ((bits >> 16) & 1u)", "0x8000u", "expand_blocks", "bf16"),
    Plant("rounding towards zero", "0x7fffu + ((bits >> 16) & 1u)", "0u", "add_1", "bf16"),
    Plant(
        "a turn in the other sense",
        "x[0] = even * cosine - odd * sine;",
        "x[0] = even * cosine + odd * sine;",
        "rms_1",
        "f16",
    ),
    Plant("the corner of a neighbour", "+ x / 2 + x % 2;", "+ x / 2;", "place_corners", "bf16"),
    Plant("lanes of a group that are no neighbours", "x[i] = rotated(x[i], 4);", "x[i] = rotated(x[i], 8);", "expand_quant", "bf16"),
    Plant("a softmax of unscaled scores", "__expf(x.x * args.scale - next)", "__expf(x.x - next)", "softmax", "f32"),
    Plant(
        "fewer registers than it needs",
        "__launch_bounds__(MAX_THREADS)",
        "__launch_bounds__(1024, 16)",
        "add_norm_8",
        "bf16",
    ),
    Plant(
        "an array that is no register",
        "  const float mean = row_sum(sum, 0)",
        "  volatile float parked[64];\n  parked[args.tokens % 64] = sum;\n  sum = parked[args.rows % 64 & 0];\n"
        "  const float mean = row_sum(sum, 0)",
        "norm_1",
        "f32",
    ),
    Plant(
        "more LDS than there is",
        "shared[2][N][PIXEL_THREADS]",
        "shared[9][N][PIXEL_THREADS]",
        "channel_moments",
        "bf16",
    ),
    Plant(
        "waves of 64 lanes",
        "#define KERNEL extern",
        '#define KERNEL __attribute__((target("wavefrontsize64"))) extern',
        "softmax",
        "f32",
    ),
    Plant(
        "a kernel without a case",
        "KERNEL activate(",
        "KERNEL newcomer(Rows rows) {}\nKERNEL activate(",
        "newcomer",
        "f32",
    ),
    Plant("a target that HIPRTC does not know", "", "", "activate", "f32", target="gfx9999"),
]


def found(plant, number, hiprtc, emu, source, check):
    """What was found of a fault; `None` where it went unseen."""
    if plant.old and source.count(plant.old) != 1:
        raise SystemExit(f"plants.py: the source has this {source.count(plant.old)} times: {plant.old}")
    planted = source.replace(plant.old, plant.new) if plant.old else source
    try:
        made = hiprtc.compile(planted, plant.target, plant.kind, f"plant-{number}")
    except NotCompiled as err:
        return str(err).splitlines()[0]
    wrong = faults(CodeObject(made).kernels[plant.kernel])
    if wrong:
        return ", ".join(wrong)
    cases = Cases(Kernels(emu, made, plant.target), plant.kind, planted)
    share, what, _ = check(cases, plant.kernel)
    return f"{share:.3g} of what is allowed ({what})" if share > 1 else None


def all_found(hiprtc, emu, source, check):
    """Plants one after the other and prints what came of each; whether all were found."""
    unseen = 0
    for number, plant in enumerate(PLANTS):
        print(f"{plant.what:44} {plant.kernel:16} {plant.kind:5}", end=" ", flush=True)
        said = found(plant, number, hiprtc, emu, source, check)
        print(said or "NOT FOUND", flush=True)
        unseen += said is None
    print(f"{len(PLANTS)} faults planted, {unseen} not found")
    return unseen == 0
