#!/usr/bin/env python3
"""Tries the kernels for AMD GPUs without a GPU: compiles them with HIPRTC and, with tinygrad's emulator, runs them.

Fetches HIPRTC and clang of Debian's unstable suite with apt (100 MB, unpacked 450 MB) and Python packages with pip into
the cache folder; installs nothing into the system. `run.py` does the rest.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
KERNELS = HERE.parents[2] / "src/engine/kernels"
TARGETS = ["gfx1030", "gfx1100", "gfx1101", "gfx1150", "gfx1151", "gfx1200", "gfx1201"]
PYTHON_PACKAGES = ["numpy", "gguf", "msgpack"]
CACHE = Path(os.environ.get("SAFELIGHT_CACHE") or Path.home() / ".cache/safelight") / "amd"


def run(*command, **options):
    subprocess.run([str(word) for word in command], check=True, stdout=sys.stderr, **options)


def output(*command):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def newest(lines, name):
    """The largest number directly after `name`."""
    numbers = [int(number) for number in re.findall(rf"^{name}(\d+)", lines, re.M)]
    return max(numbers) if numbers else sys.exit(f"error: apt has no {name}")


def fetch_packages():
    """Unpacks the newest HIPRTC, its dependencies and the clang of its LLVM."""
    found = output("apt-get", "indextargets", "--format", "$(REPO_URI)", "Identifier: Packages", "Component: main",
                   "Origin: Debian").split()
    if not found:
        sys.exit("error: this needs a Debian whose apt has a package server: HIPRTC comes from there")
    apt, archives = CACHE / "apt", CACHE / "apt/archives"
    for folder in (apt / "lists/partial", archives / "partial", CACHE / "root"):
        folder.mkdir(parents=True, exist_ok=True)
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (apt / "sources.list").write_text(f"deb [signed-by={keys} arch=amd64] {found[0]} sid main\n")
    (apt / "status").write_text("")
    settings = [f"Dir::Etc::{name}=/dev/null" for name in ("SourceParts", "Preferences", "PreferencesParts")]
    settings += [f"Dir::Etc::SourceList={apt}/sources.list", f"Dir::State::Status={apt}/status", f"Dir::State={apt}",
                 f"Dir::Cache={apt}", "Acquire::Languages=none", "APT::Install-Recommends=false",
                 "APT::Sandbox::User=root"]
    options = ["-q", *(word for setting in settings for word in ("-o", setting))]
    run("apt-get", *options, "update")
    abi = newest(output("apt-cache", *options, "search", "--names-only", "^libhiprtc[0-9]+$"), "libhiprtc")
    # HIPRTC opens comgr by name, which the runtime's package depends on.
    run("apt-get", *options, "install", "-y", "--download-only", f"libhiprtc{abi}", f"libamdhip64-{abi}")
    llvm = newest("\n".join(os.listdir(archives)), "libllvm")
    run("apt-get", *options, "download", f"clang-{llvm}", f"libclang-cpp{llvm}", cwd=archives)
    for package in archives.glob("*.deb"):
        run("dpkg-deb", "--extract", package, CACHE / "root")
    # They are built for a newer C library than this system may have, and bring it along.
    libraries = CACHE / "root/usr/lib/x86_64-linux-gnu"
    clang = CACHE / f"root/usr/lib/llvm-{llvm}/bin/clang"
    script = CACHE / "clang"
    script.write_text(f'#!/bin/sh\nexec "{libraries}/ld-linux-x86-64.so.2" --library-path "{libraries}" '
                      f'--argv0 "{clang}" "{clang}" "$@"\n')
    script.chmod(0o755)


def fetch_python():
    run("python3", "-m", "venv", CACHE / "python")
    run(CACHE / "python/bin/pip", "install", "-q", "--disable-pip-version-check", *PYTHON_PACKAGES)


def once(name, work):
    done = CACHE / f"{name}.done"
    if not done.exists():
        work()
        done.write_text("")


def engine_sources():
    """Source text and HIPRTC options, read from the engine's own files."""
    files = re.findall(r'include_str!\("([^"]+\.cu)"\)', (KERNELS / "loaded.rs").read_text())
    hip = re.search(r"Devices::Hip \{ \.\. \} => vec!\[([^\]]*)\]", (KERNELS / "driver.rs").read_text())
    options = re.findall(r'"([^"]+)"', hip[1]) if hip else []
    if not files or not any("{architecture}" in option for option in options):
        sys.exit(f"error: {KERNELS} has changed: update {Path(__file__).name}")
    return "".join((KERNELS / name).read_text() for name in files), options


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tinygrad", type=Path, help="copy of tinygrad's repository: also run the kernels")
    parser.add_argument("--plant", action="store_true", help="plant faults, which must be found (needs --tinygrad)")
    parser.add_argument("targets", nargs="*", default=TARGETS)
    words = parser.parse_args()
    if words.plant and not words.tinygrad:
        parser.error("--plant runs kernels: it needs --tinygrad DIR too")
    if words.tinygrad and not (words.tinygrad / "test/mockgpu/amd/emu.py").is_file():
        parser.error(f"{words.tinygrad} has no test/mockgpu/amd/emu.py: name a copy of tinygrad's repository")
    source, options = engine_sources()
    (CACHE / "out").mkdir(parents=True, exist_ok=True)
    once("packages", fetch_packages)
    once("python", fetch_python)
    run("cc", "-O1", "-o", CACHE / "hiprtc", HERE / "hiprtc.c", "-ldl")
    (CACHE / "out/kernels.cu").write_text(source)
    command = [CACHE / "python/bin/python", "-B", "-u", HERE / "run.py", CACHE]
    command += ["--tinygrad", words.tinygrad] if words.tinygrad else []
    command += ["--plant"] if words.plant else []
    command += [f"--option={option}" for option in options]
    return subprocess.run([str(word) for word in [*command, *words.targets]]).returncode


if __name__ == "__main__":
    sys.exit(main())
