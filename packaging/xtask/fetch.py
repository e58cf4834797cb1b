"""Puts the CPU part of libtorch in place: fetches it through pip, checks every byte, then renames it in.

Called by `cargo xtask` as `fetch.py LOCK CACHE NAME`: LOCK is libtorch.lock or the like, CACHE/NAME the folder to make.
Talks to people on standard error and ends with 0 when the folder is complete.
It does not decide what belongs to libtorch (the lock file does) nor how bytes arrive (wheels.py does).
"""

import base64
import contextlib
import csv
import errno
import fcntl
import hashlib
import io
import os
import shutil
import sys
import zipfile

import wheels
from wheels import Broken, Progress, Stop, end_without_parent, say

MARGIN = 64 << 20
STAMP = "safelight-stamp.txt"


class Wanted:
    """One wheel of the lock file: what to ask pip for and which members go where."""

    def __init__(self, requirement, record_sha256):
        self.requirement, self.record_sha256 = requirement, record_sha256
        self.files, self.trees = {}, {}

    def target_of(self, member):
        """The path below the folder to make, or None when the member is not needed."""
        if member in self.files:
            return self.files[member]
        for source, target in self.trees.items():
            rest = member[len(source) :]
            if member.startswith(source) and rest and not rest.endswith("/") and ".." not in rest.split("/"):
                return target + rest
        return None


def read_lock(text):
    wanted, texts = [], {}
    for line in text.splitlines():
        words = line.split(" ")
        if words[0] == "wheel":
            wanted.append(Wanted(words[1], words[2]))
        elif words[0] == "file":
            wanted[-1].files[words[1]] = words[2]
        elif words[0] == "tree":
            wanted[-1].trees[words[1]] = words[2]
        elif words[0] == "text":
            texts[words[1]] = (line.split(" ", 2)[2] + "\n").encode()
    return wanted, texts


class Part:
    """A wheel with the members that are needed of it and the bytes that hold them."""

    def __init__(self, wanted, wheel):
        self.wanted, self.wheel = wanted, wheel
        members, directory_start = wheel.directory()
        self.members = [member for member in members if self.target(member)]
        offsets = sorted(member.header_offset for member in members) + [directory_start]
        end_of = dict(zip(offsets, offsets[1:]))
        self.record = next((m for m in members if m.filename.endswith(".dist-info/RECORD")), None)
        absent = set(wanted.files) - {member.filename for member in members}
        if absent or self.record is None:
            raise Broken("it lacks " + (min(absent) if absent else "its RECORD"))
        self.spans = merged((m.header_offset, end_of[m.header_offset]) for m in [*self.members, self.record])
        if not 0 <= self.spans[0][0] <= self.spans[-1][1] <= directory_start:
            raise Broken("its table of contents is damaged")
        self.unpacked_bytes = sum(member.file_size for member in self.members)

    def target(self, member):
        return self.wanted.target_of(member.filename)

    def bring(self, arrived):
        for start, end in self.spans:
            self.wheel.bring(start, end, arrived)

    def unpack(self, folder, stamp):
        """Writes the members; every one must have the SHA-256 of RECORD, and RECORD that of the lock file."""
        try:
            with zipfile.ZipFile(self.wheel.path) as archive:
                record = archive.read(self.record)
                if hashlib.sha256(record).hexdigest() != self.wanted.record_sha256:
                    raise Broken("its list of files is not the known one")
                sums = {row[0]: row[1] for row in csv.reader(io.StringIO(record.decode())) if len(row) == 3}
                for member in self.members:
                    target = self.target(member)
                    digest = copy_member(archive, member, os.path.join(folder, target))
                    expected = "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
                    if sums.get(member.filename) != expected:
                        raise Broken(member.filename + " has the wrong checksum")
                    stamp.append((member.file_size, digest.hex(), target))
        except Exception as err:
            raise wheels.as_broken(err) from err


def merged(spans):
    """Spans in order, those that touch as one: fewer requests."""
    whole = []
    for start, end in sorted(spans):
        if whole and start <= whole[-1][1]:
            whole[-1] = (whole[-1][0], max(end, whole[-1][1]))
        else:
            whole.append((start, end))
    return whole


def copy_member(archive, member, path):
    end_without_parent()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    digest = hashlib.sha256()
    with archive.open(member) as source, open(path, "wb") as target:
        for chunk in iter(lambda: source.read(1 << 20), b""):
            digest.update(chunk)
            target.write(chunk)
    return digest.digest()


def plan(wanted, wheel):
    """Reads the table of contents; a broken one is fetched a second time."""
    try:
        return Part(wanted, wheel)
    except Broken as problem:
        wheel.forget(problem)
        return Part(wanted, wheel)


def unpack(part, folder, stamp):
    """Brings and writes one wheel's part; a broken one is fetched a second time."""
    before = len(stamp)
    try:
        part.unpack(folder, stamp)
    except Broken as problem:
        part.wheel.forget(problem)
        del stamp[before:]
        again = Part(part.wanted, part.wheel)
        progress = Progress(part.wheel.missing_bytes(again.spans))
        again.bring(progress.add)
        progress.end()
        again.unpack(folder, stamp)


def check_space(parts, folder):
    fetched = sum(part.wheel.missing_bytes(part.spans) for part in parts)
    needed = fetched + sum(part.unpacked_bytes for part in parts) + MARGIN
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise Stop(
            "libtorch needs %d MB more in %s, which has %d MB free: make room, or set SAFELIGHT_CACHE to a folder "
            "on another disk." % (needed / 1e6, folder, free / 1e6)
        )
    return fetched


def make(lock_text, cache, folder):
    downloads, partial = os.path.join(cache, "wheels"), folder + ".partial"
    os.makedirs(downloads, exist_ok=True)
    shutil.rmtree(partial, ignore_errors=True)  # Unpacking takes seconds: it starts anew, from kept bytes.
    wanted, texts = read_lock(lock_text)
    pip_lines = wheels.PipLines()
    with contextlib.ExitStack() as contexts:
        parts = []
        for one in wanted:
            wheel = wheels.find(one.requirement, downloads, pip_lines, contexts)
            try:
                parts.append(plan(one, wheel))
            except Broken as problem:
                raise broken_twice(wheel, problem) from problem
        missing = check_space(parts, cache)
        if missing:
            say("Fetching the CPU part of libtorch (%d MB to go) into %s" % (missing / 1e6, cache))
        progress = Progress(missing)
        for part in parts:
            part.bring(progress.add)
        progress.end()
        say("Unpacking and checking it")
        stamp = []
        for part in parts:
            try:
                unpack(part, partial, stamp)
            except Broken as problem:
                raise broken_twice(part.wheel, problem) from problem
    for target, content in texts.items():
        with open(os.path.join(partial, target), "wb") as file:
            file.write(content)
        stamp.append((len(content), hashlib.sha256(content).hexdigest(), target))
    finish(lock_text, partial, folder, stamp)
    shutil.rmtree(downloads, ignore_errors=True)


def finish(lock_text, partial, folder, stamp):
    """The stamp comes last but for the rename: a folder with a stamp is whole."""
    lines = ["%d %s %s" % entry for entry in sorted(stamp, key=lambda entry: entry[2])]
    with open(os.path.join(partial, STAMP), "w", encoding="utf-8") as file:
        file.write(lock_text + "files\n" + "\n".join(lines) + "\n")
    os.sync()
    old = folder + ".old"
    shutil.rmtree(old, ignore_errors=True)
    if os.path.lexists(folder):
        os.rename(folder, old)
    os.rename(partial, folder)
    shutil.rmtree(old, ignore_errors=True)


def broken_twice(wheel, problem):
    return Stop(
        "The wheel of %s is broken, also when fetched a second time (%s): pip's index or proxy hands out damaged "
        "files, so use another one or try again later." % (wheel.name, problem)
    )


def main(lock, cache, name):
    with open(lock, encoding="utf-8") as file:
        lock_text = file.read()
    os.makedirs(cache, exist_ok=True)
    with open(os.path.join(cache, name + ".lock"), "w") as guard:
        try:
            fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Waiting for another set-up to finish")
            fcntl.flock(guard, fcntl.LOCK_EX)
            if os.path.exists(os.path.join(cache, name, STAMP)):
                return
        make(lock_text, cache, os.path.join(cache, name))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Stop as err:
        say("error: %s" % err)
        for line in err.lines:
            say("  pip: " + line[:300])
        sys.exit(1)
    except KeyboardInterrupt:
        say("\nerror: Stopped; the same command goes on from here.")
        sys.exit(130)
    except OSError as err:
        if err.errno in (errno.ENOSPC, errno.EDQUOT):
            say(
                "error: The disk of %s is full: make room, or set SAFELIGHT_CACHE to a folder on another disk; then "
                "run the same command again (what was fetched is kept)." % sys.argv[2]
            )
        else:
            say("error: %s: %s" % (err.filename or sys.argv[2], err.strerror or err))
        sys.exit(1)
