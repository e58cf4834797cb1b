"""Compiles the kernels with real HIPRTC, which needs no GPU for that. Each compilation is a process of its own.

HIPRTC 6.4.3 ends its process where it does not know the target.
"""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

KINDS = ("f32", "f16", "bf16")


class NotCompiled(Exception):
    """Why there is no code object; one sentence, then what the compiler said."""


class Hiprtc:
    """HIPRTC out of a folder of Debian's packages, `root`, started by their own loader: they want a newer C library."""

    def __init__(self, cache, options):
        self.cache, self.options = cache, options
        self.out = cache / "out"
        self.out.mkdir(exist_ok=True)
        self.libraries = next((cache / "root/usr/lib").glob("*-linux-gnu"))
        self.name = next(self.libraries.glob("libhiprtc.so.?")).name

    def release(self):
        return (self.libraries / self.name).resolve().name

    def compile(self, source, target, kind, name=None):
        """The path of the code object for a source text."""
        stem = name or f"{target}-{kind}"
        text, made = self.out / f"{stem}.cu", self.out / f"{stem}.co"
        text.write_text(source)
        made.unlink(missing_ok=True)
        loader = self.libraries / "ld-linux-x86-64.so.2"
        started = [loader, "--library-path", self.libraries, self.cache / "hiprtc", self.name, text, made]
        options = [option.replace("{architecture}", target) for option in self.options]
        ended = subprocess.run(
            [*started, *options, f"-DKIND={KINDS.index(kind)}"], capture_output=True, text=True, errors="replace"
        )
        if ended.returncode < 0:
            said = ended.stderr.strip() or "nothing"
            raise NotCompiled(f"HIPRTC ended by signal {-ended.returncode} for {target}; it said {said}")
        if ended.returncode or not made.exists():
            raise NotCompiled(f"HIPRTC refused {kind} for {target}: {ended.stderr.strip()}")
        return made

    def compile_all(self, source, targets):
        """A path or what went wrong for each target and kind, in order."""

        def one(wanted):
            try:
                return self.compile(source, *wanted)
            except NotCompiled as err:
                return err

        wanted = [(target, kind) for target in targets for kind in KINDS]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(zip(wanted, pool.map(one, wanted)))


def sources(cache):
    """The text that the engine would compile, as `amd.py` wrote it."""
    return Path(cache, "out/kernels.cu").read_text()
