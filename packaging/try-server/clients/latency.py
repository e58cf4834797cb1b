"""Measures how long a preview takes from the engine to a client, and what the server costs. Run from the folder above:

    python3 -m clients.latency FOLDER WITH SAFELIGHT AND ITS ENGINE
"""

import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from .server import MODEL, Server

COUNT = 50
# 512 × 512 takes about a quarter of a second a step on two cores.
FORM = {"model": MODEL, "prompt": "a red boat", "width": 512, "height": 512, "num_frames": 1, "seed": 3}


def engine(real, log, arguments):
    """Runs in the engine's place: passes on what the engine says, and logs when each preview and frame is complete."""
    child = subprocess.Popen([real, *arguments], stdout=subprocess.PIPE)
    with open(log, "a") as file:
        while head := child.stdout.read(8):
            if len(head) < 8:
                sys.stdout.buffer.write(head)
                break
            text, pixels = struct.unpack("<II", head)
            body = child.stdout.read(text + pixels)
            if body.startswith((b'{"message":"preview"', b'{"message":"frame"')):
                file.write(f"{time.monotonic()} {child.pid}\n")
                file.flush()
            sys.stdout.buffer.write(head + body)
            sys.stdout.buffer.flush()
    sys.exit(child.wait())


def follow(url, arrivals):
    """Notes when the first byte of each preview arrives."""
    answer = urllib.request.urlopen(f"{url}/api/events")
    while line := answer.fp.readline(20):
        if line.startswith(b"event: preview"):
            arrivals.append(time.monotonic())


def cpu_secs(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def make(server, num_steps):
    """Runs a job to its end; returns its steps' duration."""
    form = {**FORM, "num_steps": num_steps}
    status, answer = server.call("/api/jobs", {"form": form})
    assert status == 202, answer
    begin = time.monotonic()
    while True:
        job = server.call(f"/api/jobs/{answer['jobs'][0]}")[1]
        if job["status"] in ("finished", "failed"):
            assert job["status"] == "finished", job
            return time.monotonic() - begin
        time.sleep(0.5)


def measure(server, log, name):
    make(server, 2)
    engine_pid = int(log.read_text().split()[-1])
    costs = []
    arrivals = []
    for has_client in (False, True):
        if has_client:
            threading.Thread(target=follow, args=(server.url, arrivals), daemon=True).start()
            time.sleep(1)
        log.write_text("")
        arrivals.clear()
        pids = (server.process.pid, engine_pid)
        before = [cpu_secs(pid) for pid in pids]
        make(server, COUNT)
        costs.append([cpu_secs(pid) - earlier for pid, earlier in zip(pids, before)])
    sent = [float(line.split()[0]) for line in log.read_text().splitlines()]
    delays = [min(at - other for other in sent if other <= at) * 1000 for at in arrivals]
    print(f"{name}: {len(sent)} previews, {len(arrivals)} arrived; first byte after "
          f"{statistics.median(delays):.1f} ms (median), {max(delays):.1f} ms (worst)")
    for words, (own, of_engine) in zip(("no client", "one client"), costs):
        print(f"{name}, {words}: Safelight {own:.2f} s, engine {of_engine:.2f} s of processor time "
              f"({100 * own / of_engine:.2f} %)", flush=True)


def main():
    programs = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "previews"
        log.touch()
        between = Path(folder) / "safelight-engine"
        between.write_text(
            f"#!/bin/sh\ncd {Path(__file__).parents[1]}\n"
            f'exec python3 -m clients.latency --engine {programs}/safelight-engine {log} "$@"\n'
        )
        between.chmod(0o755)
        os.environ["SAFELIGHT_ENGINE"] = str(between)
        with Server(programs, Path(folder) / "home") as server:
            measure(server, log, "idle")
            burners = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2 * os.cpu_count())]
            try:
                measure(server, log, "loaded")
            finally:
                for burner in burners:
                    burner.kill()


if __name__ == "__main__":
    if sys.argv[1] == "--engine":
        engine(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        main()
