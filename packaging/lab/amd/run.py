"""Compiles the kernels, prints the table and runs them, once `amd.py` has fetched the tools.

Called as `run.py CACHE [--tinygrad DIR] [--plant] OPTION... -- TARGET...`: OPTION is what the engine gives HIPRTC. Exit
code 1: something is wrong, and its line says so.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

import emulator
import plants
from cases import Cases
from code_object import CodeObject, print_heads, print_rows
from hiprtc import KINDS, Hiprtc, NotCompiled, sources

# A generation of each family of instructions that the emulator has.
EMULATED = ("gfx1100", "gfx1151", "gfx1201")


def table(hiprtc, source, targets):
    """Prints what each kernel needs on every target; the code objects, and whether all is well."""
    start, made, bad, count = time.monotonic(), {}, 0, 0
    print_heads()
    for (target, kind), result in hiprtc.compile_all(source, targets):
        if isinstance(result, NotCompiled):
            print(f"{target:8} {kind:5} WRONG: {result}")
            bad += 1
            continue
        made[target, kind] = result
        kernels = CodeObject(result).kernels
        count += len(kernels)
        bad += print_rows(target, kind, kernels)
    secs = time.monotonic() - start
    print(f"{hiprtc.release()}: {count} kernels in {len(made)} code objects, {bad} wrong, {secs:.0f} s")
    return made, bad == 0 and count > 0


def check(cases, kernel):
    """Runs a kernel's case: the worst error as a share of what is allowed, what of it, and how many results."""
    results = cases.of(kernel)
    if results is None:
        return np.inf, "it has no case in cases.py", 0
    worst, count = (-1.0, ""), 0
    try:
        for what, found, due in results:
            count += 1
            worst = max(worst, (cases.share_of_allowed(found, due), what), key=lambda one: one[0])
    except (ValueError, RuntimeError, NotImplementedError) as err:
        worst = (np.inf, str(err))
    if cases.wrote_beside():
        worst = (np.inf, "it wrote beside its tensors")
    return *worst, count


def emulate(emu, made, target, source):
    """Runs every kernel of a target; whether all are right."""
    start, count, wrong = time.monotonic(), 0, 0
    for kind in KINDS:
        cases = Cases(emulator.Kernels(emu, made[target, kind], target), kind, source)
        for kernel in cases.kernels.object.kernels:
            # First its name: a wrong address ends the process.
            print(f"{target:8} {kernel:16} {kind:5}", end=" ", flush=True)
            share, what, results = check(cases, kernel)
            verdict = "" if share <= 1 else "  WRONG"
            print(f"{share:6.3f} of what is allowed ({what}), {results:2} results{verdict}", flush=True)
            count, wrong = count + 1, wrong + (share > 1)
    print(f"{target}: {count} kernels run, {wrong} wrong, {time.monotonic() - start:.0f} s")
    return wrong == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--tinygrad", type=Path)
    parser.add_argument("--plant", action="store_true")
    parser.add_argument("--option", dest="options", action="append", required=True)
    parser.add_argument("targets", nargs="+")
    words = parser.parse_args()
    hiprtc, source = Hiprtc(words.cache, words.options), sources(words.cache)
    emu = None
    if words.tinygrad:
        emu = emulator.load(words.tinygrad, words.cache)
    if words.plant:
        return 0 if plants.all_found(hiprtc, emu, source, check) else 1
    made, is_well = table(hiprtc, source, words.targets)
    for target in EMULATED if emu else ():
        if all((target, kind) in made for kind in KINDS):
            is_well &= emulate(emu, made, target, source)
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
