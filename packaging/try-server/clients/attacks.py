"""Clients that are many, slow, gone, or not allowed."""

import http.client
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

from .server import MODEL, Server

# Of the server's process, which holds no model.
MAX_MB = 900
CHUNK = bytes(1 << 20)


def many_clients(server):
    def client(number):
        order = {"model": MODEL, "prompt": f"client {number}", "size": "64x64", "steps": 1, "seed": number}
        status, answer = server.call("/v1/images/generations", order, timeout=600)
        return status == 200 and len(answer["data"]) == 1

    with ThreadPoolExecutor(50) as pool:
        assert all(pool.map(client, range(50)))
    jobs = server.call("/api/jobs")[1]["jobs"]
    made = [job["prompt"] for job in jobs if job["prompt"].startswith("client ")]
    assert sorted(made) == sorted(f"client {number}" for number in range(50)), made


def connect(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def slow_clients(server):
    """Half of a header, half of a body, answers that are not read: others go on, and jobs of the gone are cancelled."""
    head = b"POST /v1/images/generations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    beginnings = [head, head + b"Content-Length: 5000000\r\n\r\n{", b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n"]
    slow = [connect(server) for _ in range(60)]
    for number, connection in enumerate(slow):
        connection.sendall(beginnings[number % 3])
    assert server.call("/api/jobs", timeout=10)[0] == 200
    # Three that wait for an image and hang up.
    order = json.dumps({"model": MODEL, "prompt": "gone", "size": "64x64"}).encode()
    for _ in range(3):
        connection = connect(server)
        connection.sendall(head + f"Content-Length: {len(order)}\r\n\r\n".encode() + order)
        time.sleep(0.3)
        connection.close()
    end = time.time() + 60
    while True:
        jobs = server.call("/api/jobs")[1]["jobs"]
        left = [job["status"] for job in jobs if job["prompt"] == "gone"]
        if left and all(status in ("cancelled", "finished") for status in left):
            break
        assert time.time() < end, left
        time.sleep(0.2)
    for connection in slow:
        connection.close()


def upload(server, num_bytes, headers=()):
    """Status of an upload of zeros."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    connection.putrequest("POST", "/api/uploads?name=a.mp4")
    connection.putheader("Content-Length", str(num_bytes))
    for name, value in headers:
        connection.putheader(name, value)
    connection.endheaders()
    try:
        for _ in range(num_bytes >> 20):
            connection.send(CHUNK)
    except (BrokenPipeError, ConnectionResetError):
        return "closed"
    return connection.getresponse().status


def large_uploads(server):
    before = server.peak_mb()
    assert upload(server, 1 << 30) == 201
    assert server.peak_mb() < before + 100, f"an upload of 1 GB costs {server.peak_mb() - before} MB"
    # More than 4 GiB: refused by what it says of itself.
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    headers = {"Content-Length": str(5 << 30), "Expect": "100-continue"}
    connection.request("POST", "/api/uploads", headers=headers)
    assert connection.getresponse().status == 413
    # One that vanishes leaves nothing.
    connection = connect(server)
    connection.sendall(b"POST /api/uploads HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90000000\r\n\r\n" + CHUNK)
    connection.close()
    uploads = server.home / ".local/share/safelight/uploads"
    end = time.time() + 60
    while list(uploads.glob("*.part")):
        assert time.time() < end, "a half-written upload stays"
        time.sleep(0.1)
    for file in uploads.glob("*.mp4"):
        file.unlink()


def strangers(server):
    for name, value in (("Host", "evil.example"), ("Origin", "http://evil.example"), ("Origin", "null"),
                        ("Host", "[::1]evil")):
        assert server.call("/api/jobs", headers={name: value})[0] == 403, (name, value)
    for path in ("/../../etc/passwd", "/api/jobs/..%2f..%2fetc%2fpasswd", "/api/results/..%2f..%2fserver-token/file",
                 "/page.js/../../Cargo.toml", "/%2e%2e/%2e%2e/etc/passwd", "/api/jobs/1/files/../../../../etc/passwd"):
        assert server.call(path)[0] in (400, 404), path
    with ThreadPoolExecutor(16) as pool:
        large = json.dumps({"prompt": "x" * (63 << 20), "override_settings": {"sd_model_checkpoint": MODEL}}).encode()
        headers = {"Content-Type": "application/json"}
        post = lambda _: server.call("/sdapi/v1/txt2img", large, headers=headers)
        answers = list(pool.map(post, range(16)))
        assert [status for status, _ in answers] == [400] * 16, answers
    assert server.call("/v1/images/generations", large, headers=headers)[0] == 413
    deep = b"[" * 1_000_000
    assert server.call("/api/jobs", deep, headers=headers)[0] == 400
    with Server(server.programs, server.home.parent / "guarded", "0.0.0.0:0") as guarded:
        refused_without_token(guarded)


def refused_without_token(guarded):
    right = {"Authorization": f"Bearer {guarded.token}"}
    assert guarded.call("/api/jobs", headers=right)[0] == 200
    wrong = [None, "", "Bearer", "Bearer ", "Bearer wrong", f"Bearer {guarded.token}x", f"Bearer {guarded.token[:-1]}",
             f"Basic {guarded.token}", guarded.token]
    for path in ("/", "/docs", "/openapi.json", "/v1/models", "/api/events", "/mcp", "/sdapi/v1/options", "/none"):
        for token in wrong:
            headers = {"Authorization": token} if token is not None else {}
            assert guarded.call(path, headers=headers)[0] == 401, (path, token)
    assert guarded.call("/?token=wrong")[0] == 401
    assert upload(guarded, 64 << 20) == 401
    stored = guarded.home / ".local/share/safelight/uploads"
    assert not list(stored.glob("*")), "an upload without a token was stored"
