"""Wheels through the pip of this machine: where they are, and any part of their bytes.

pip finds the wheels and carries the connection, so its index, proxy, certificates and passwords are used.
Of a wheel only the wanted blocks are read, into a sparse file with a map of the blocks that are there:
an interrupted fetch goes on at the block where it stopped. Where pip's inner parts are not as this file
expects, plain `pip download` brings whole wheels instead.

It does not know what is in the wheels, and installs nothing.
"""

import errno
import hashlib
import logging
import os
import subprocess
import sys
import time
import zipfile

BLOCK = 1 << 20
TAIL = 4 * BLOCK
CHUNK = 1 << 18
ATTEMPTS = 5
PARENT = os.getppid()
# CPython 3.11's wheels whatever Python runs this: every machine gets the same bytes.
PIP_ARGS = ["--no-deps", "--only-binary=:all:", "--python-version", "311"] + [
    arg
    for tag in ("_2_28", "_2_27", "_2_25", "_2_17", "2014")
    for arg in ("--platform", "manylinux" + tag + "_x86_64")
]


def ignore(_count):
    """Small parts arrive without a word."""


class Stop(Exception):
    """A sentence for the user, with lines that explain it."""

    def __init__(self, sentence, lines=()):
        super().__init__(sentence)
        self.lines = [str(line) for line in lines]


class Broken(Exception):
    """The wheel's bytes are not what they must be."""


def not_reached(name, lines):
    return Stop(
        "%s could not be fetched through pip: check the network and pip's index and proxy settings, "
        "then run the same command again (what was fetched is kept)." % name,
        lines,
    )


def say(line):
    print(line, file=sys.stderr, flush=True)


def end_without_parent():
    """When `cargo xtask` is gone, the next one must not find a second writer."""
    if os.getppid() != PARENT:
        os._exit(130)


class Progress:
    """One line that is rewritten on a terminal; elsewhere a line every tenth."""

    def __init__(self, total):
        self.total, self.done, self.shown = max(total, 1), 0, 0
        self.start = time.monotonic()
        self.terminal = sys.stderr.isatty()

    def add(self, count):
        end_without_parent()
        self.done = min(self.done + count, self.total)
        seconds = time.monotonic() - self.start
        mark = int(seconds * 5) if self.terminal else self.done * 10 // self.total
        if mark == self.shown and self.done < self.total:
            return
        self.shown = mark
        rate = self.done / max(seconds, 0.001)
        line = "%4d of %d MB, %.1f MB/s, %d s left" % (
            self.done / 1e6,
            self.total / 1e6,
            rate / 1e6,
            (self.total - self.done) / max(rate, 1),
        )
        sys.stderr.write("\r\x1b[K  " + line if self.terminal else "  " + line + "\n")
        sys.stderr.flush()

    def end(self):
        if self.terminal and self.shown:
            sys.stderr.write("\r\x1b[K")


class PipLines(logging.Handler):
    """Keeps the last thing that pip complained about, off the screen."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = []
        logging.getLogger("pip").addHandler(self)
        logging.getLogger("pip").propagate = False

    def emit(self, record):
        self.lines = [record.getMessage().strip()]


class RemoteWheel:
    """A wheel behind pip's connection, of which any part can be brought into a sparse local file."""

    def __init__(self, name, session, link, folder):
        self.name, self.session, self.url = name, session, link.url_without_fragment
        self.size = self.ask_size()
        key = hashlib.sha256(("%s %d" % (link.hash or self.url, self.size)).encode()).hexdigest()[:12]
        self.path = os.path.join(folder, "%s.%s.part" % (link.filename, key))
        self.map_path = self.path + ".blocks"
        self.open()

    def open(self):
        self.file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fresh = os.fstat(self.file).st_size != self.size
        os.ftruncate(self.file, self.size)
        self.map = os.open(self.map_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if fresh:  # The map of a part that somebody removed or cut says nothing.
            os.ftruncate(self.map, 0)
        count = (self.size + BLOCK - 1) // BLOCK
        self.have = bytearray(os.pread(self.map, count, 0).ljust(count, b"\0"))

    def forget(self, problem):
        """Drops every byte, to fetch them again."""
        say("The wheel of %s is broken (%s): fetching it again" % (self.name, problem))
        for descriptor, path in ((self.map, self.map_path), (self.file, self.path)):
            os.close(descriptor)
            os.unlink(path)
        self.open()

    def get(self, start, end):
        headers = {"Accept-Encoding": "identity", "Cache-Control": "no-cache"}
        headers["Range"] = "bytes=%d-%d" % (start, end - 1)
        response = self.session.get(self.url, headers=headers, stream=True)
        response.raise_for_status()
        return response

    def ask_size(self):
        for attempt in range(ATTEMPTS):
            try:
                response = self.get(0, 1)
                length = response.headers.get("Content-Range", "").rpartition("/")[2]
                self.has_ranges = response.status_code == 206
                response.close()
                return int(length or response.headers["Content-Length"])
            except Exception as err:  # Whatever pip's libraries raise, it means: not reached.
                problem = err
                time.sleep(2**attempt / 4)
        raise not_reached(self.name, [problem])

    def missing(self, start, end):
        """The blocks of a range of bytes that are not there yet, as runs of neighbours."""
        runs = []
        for block in range(start // BLOCK, (end + BLOCK - 1) // BLOCK):
            if self.have[block]:
                continue
            if runs and runs[-1][1] == block:
                runs[-1][1] = block + 1
            else:
                runs.append([block, block + 1])
        return runs

    def missing_bytes(self, spans):
        blocks = {block for span in spans for first, last in self.missing(*span) for block in range(first, last)}
        return len(blocks) * BLOCK

    def bring(self, start, end, arrived):
        """Fetches what is missing of a range of bytes, over as many connections as it takes."""
        failures = 0
        while self.missing(start, end):
            first, last = self.missing(start, end)[0]
            before = sum(self.have)
            problem = "the connection ended early"
            try:
                self.stream(first * BLOCK, min(last * BLOCK, self.size), arrived)
            except Exception as err:  # As above: the sentence is the same for every kind, but for a full disk.
                if getattr(err, "errno", None) == errno.ENOSPC:
                    raise
                problem = err
            if sum(self.have) > before:
                failures = 0
                continue
            failures += 1
            if failures == ATTEMPTS:
                raise not_reached(self.name, [problem])
            time.sleep(2**failures / 4)

    def stream(self, start, end, arrived):
        response = self.get(start, end)
        # A server without ranges answers 200 and sends everything from the beginning.
        at = start if response.status_code == 206 else 0
        marked = at // BLOCK
        for chunk in response.iter_content(CHUNK):
            arrived(len(chunk))
            view = memoryview(chunk)
            while view:
                written = os.pwrite(self.file, view, at)
                at, view = at + written, view[written:]
            complete = len(self.have) if at >= self.size else at // BLOCK
            for block in range(marked, complete):
                self.have[block] = 1
                os.pwrite(self.map, b"\1", block)
            marked = max(marked, complete)
        response.close()

    def directory(self):
        """The table of contents and where it begins; only the end of the wheel is fetched for it, if the index can."""
        progress = None if self.has_ranges else Progress(self.missing_bytes([(0, self.size)]))
        for start in (max(0, self.size - TAIL), 0):
            self.bring(start, self.size, progress.add if progress else ignore)
            try:
                return read_directory(self.path)
            except Broken as err:
                problem = err
            finally:
                if progress:
                    progress.end()
        raise problem


class LocalWheel:
    """A whole wheel on this disk: one that pip was told to look for there, or one that plain pip fetched."""

    def __init__(self, name, path, fetch_again=None):
        self.name, self.path, self.fetch_again = name, path, fetch_again

    def forget(self, problem):
        if self.fetch_again is None:
            sentence = "The wheel %s is broken (%s): put a good one there, then run the same command again."
            raise Stop(sentence % (self.path, problem))
        say("The wheel %s is broken (%s): fetching it again" % (self.path, problem))
        os.unlink(self.path)
        self.path = self.fetch_again()

    def missing_bytes(self, _spans):
        return 0

    def bring(self, _start, _end, _arrived):
        pass

    def directory(self):
        return read_directory(self.path)


def read_directory(path):
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.infolist(), archive.start_dir
    except Exception as err:
        raise as_broken(err) from err


def as_broken(err):
    """What reading a damaged zip raises can be nearly anything; trouble with the disk stays what it is."""
    if isinstance(err, (Broken, Stop)) or (isinstance(err, OSError) and err.errno != errno.EINVAL):
        return err
    return Broken(str(err) or type(err).__name__)


def find(requirement, folder, pip_lines, contexts):
    """The wheel of a requirement such as `torch===2.11.0`, wherever pip finds it."""
    name = requirement.replace("===", " ")
    try:
        from pip._internal.cli.cmdoptions import make_target_python
        from pip._internal.commands import create_command
        from pip._vendor.packaging.requirements import Requirement

        command = create_command("download")
        options, _ = command.parse_args(PIP_ARGS + ["--dest", folder, requirement])
        options.retries = min(options.retries, 2)  # bring() has patience of its own; a machine offline hears it soon.
        contexts.enter_context(command.main_context())
        session = command.get_default_session(options)
        python = make_target_python(options)
        finder = command._build_package_finder(options=options, session=session, target_python=python)
        wanted = Requirement(requirement)
        best = finder.find_best_candidate(wanted.name, wanted.specifier).best_candidate
        path = best.link.file_path if best and best.link.is_file else None
    except (ImportError, AttributeError, TypeError, SystemExit):
        # pip changed inside; its command line stays.
        return LocalWheel(name, download_whole(requirement, folder), lambda: download_whole(requirement, folder))
    except Exception as err:  # A refused connection, a wrong certificate, an index that is none.
        raise not_reached(name, pip_lines.lines + [err]) from err
    if best is None:
        raise not_reached(name, pip_lines.lines or ["pip's index has no such wheel for Linux on x86_64"])
    return LocalWheel(name, path) if path else RemoteWheel(name, session, best.link, folder)


def download_whole(requirement, folder):
    """Plain `pip download`; a wheel that is there already is not fetched again."""
    name, _, version = requirement.partition("===")
    start = "%s-%s-" % (name.replace("-", "_"), version)
    command = [sys.executable, "-m", "pip", "download"] + PIP_ARGS + ["--dest", folder, requirement]
    for _ in range(2):
        for found in os.listdir(folder):
            if found.startswith(start) and found.endswith(".whl"):
                return os.path.join(folder, found)
        ended = subprocess.run(command, stdout=sys.stderr, stderr=subprocess.PIPE, universal_newlines=True)
        if ended.returncode:
            raise not_reached(requirement.replace("===", " "), ended.stderr.strip().splitlines()[-3:])
    raise not_reached(requirement.replace("===", " "), ["pip download made no file " + start + "*.whl"])
