"""A server with a home of its own."""

import json
import os
import re
import signal
import struct
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

MODEL = "little-world"
REPOSITORY = Path(__file__).resolve().parents[3]


def environment(home, assets=REPOSITORY / "assets"):
    """Of a program that finds nothing of this user's."""
    libtorch = os.environ.get("LIBTORCH", REPOSITORY / ".libtorch")
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "SAFELIGHT_ENGINE", "SAFELIGHT_LIBTORCH") if name in os.environ}
    return {
        "SAFELIGHT_LIBTORCH": f"{libtorch}/lib",
        "SAFELIGHT_ASSETS": str(assets),
        **kept,
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(home),
    }


def write_upscaler(path):
    """A compact network for ×4 whose numbers are all 0: it gives the nearest pixels."""
    shapes = {
        "body.0.weight": [4, 3, 3, 3], "body.0.bias": [4], "body.1.weight": [4],
        "body.2.weight": [4, 4, 3, 3], "body.2.bias": [4], "body.3.weight": [4],
        "body.4.weight": [48, 4, 3, 3], "body.4.bias": [48],
    }
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 4
        for side in shape:
            size *= side
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    path.parent.mkdir(parents=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(at))


class Server:
    def __init__(self, programs, home, listen="127.0.0.1:0", **options):
        self.programs = programs
        self.program = str(programs / "safelight")
        self.home = home
        home.mkdir(parents=True)
        write_upscaler(home / ".local/share/safelight/models/upscale_models/4x-Nearest.safetensors")
        self.log = open(home / "log", "w")
        self.process = subprocess.Popen(
            [self.program, "serve", "--listen", listen],
            env=environment(home, **options), stdout=subprocess.PIPE, stderr=self.log, text=True,
        )
        first = self.process.stdout.readline()
        found = re.search(r"http://(\S+)", first)
        assert found, f"the server did not start: {first}{(home / 'log').read_text()}"
        self.port = int(found[1].rsplit(":", 1)[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self.token = None
        if not listen.startswith("127."):
            self.process.stdout.readline()
            self.token = self.process.stdout.readline().split("Bearer ")[1].strip("`\n")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def peak_mb(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) // 1024

    def call(self, path, body=None, method=None, headers=None, timeout=120):
        """Status and answer of a request; JSON unless the body is bytes."""
        headers = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        request = urllib.request.Request(self.url + path, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                text, status = answer.read(), answer.status
        except urllib.error.HTTPError as err:
            text, status = err.read(), err.code
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text
