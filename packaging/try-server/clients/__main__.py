"""Starts servers on the little world and runs each client; prints a table."""

import sys
import tempfile
import time
import traceback
from pathlib import Path

from . import attacks, mcp_clients, openai_client, others, page
from .server import Server

TRIES = [
    ("openai: models, images, edits, errors, videos", openai_client.run),
    ("A1111, as SillyTavern calls it", others.sillytavern),
    ("MCP over HTTP: Python SDK", mcp_clients.over_http),
    ("MCP over stdio: Python SDK", mcp_clients.over_stdio),
    ("MCP: conformance suite", mcp_clients.conformance),
    ("OpenAPI: schemathesis", others.schemathesis),
    ("Chromium: page, upload, playback, documentation", page.run),
    ("50 clients at once", attacks.many_clients),
    ("slow and vanishing clients", attacks.slow_clients),
    ("an upload of 1 GB, and one over the limit", attacks.large_uploads),
    ("bad tokens, foreign origins, path tricks, large JSON", attacks.strangers),
]


def main():
    programs = Path(sys.argv[1])
    wanted = sys.argv[2:]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        with Server(programs, Path(folder) / "home") as server:
            for name, run in TRIES:
                if wanted and not any(word in name for word in wanted):
                    continue
                begin = time.time()
                try:
                    run(server)
                    word = "ok"
                except Exception:
                    traceback.print_exc()
                    word = "FAILED"
                    failed += 1
                print(f"{name:<56} {word:<6} {time.time() - begin:7.1f} s", flush=True)
            peak = server.peak_mb()
            print(f"peak memory of the server: {peak} MB")
            if peak > attacks.MAX_MB:
                print(f"error: more than {attacks.MAX_MB} MB", file=sys.stderr)
                failed += 1
        if server.process.returncode != 0:
            print(f"error: the server ended with {server.process.returncode}", file=sys.stderr)
            failed += 1
    sys.exit(1 if failed else 0)


main()
