"""A process that looks like a JVM, and turns what a doctor is about to use into something else.

Line: a JSON object. uid: its user. root: a folder to chroot into. namespaces: whether it makes a
user namespace with a /tmp of its own. victim: the folder that links lead to. seed: of the tricks,
played at any moment. tricks: their names. answer: what it writes as the agent. dump: its answer to
`threaddump`. reply: how it answers at all.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import random
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

OPTIONS = json.loads(sys.argv[1])
LIBC = ctypes.CDLL(None, use_errno=True)
CHANCE = random.Random(OPTIONS["seed"])
VICTIM = OPTIONS["victim"]
TMP = Path("/tmp")
PID = os.getpid()
NAMED = threading.Event()
GOOD = '{"format":1,"java":"17","read_at_ms":1,"consumers":[],"objects":1,"milliseconds":1}'


def settle() -> mmap.mmap:
    """Takes its place: its root, its user, its namespaces."""
    with Path(OPTIONS["library"]).open("rb") as library:
        kept = mmap.mmap(library.fileno(), 0, prot=mmap.PROT_READ)
    if OPTIONS["root"]:
        os.chroot(OPTIONS["root"])
        os.chdir("/")
    os.setgroups([])
    os.setresgid(*[OPTIONS["uid"]] * 3)
    os.setresuid(*[OPTIONS["uid"]] * 3)
    LIBC.prctl(4, 1, 0, 0, 0)  # as one that was started by its user: its own /proc is its own
    if OPTIONS["namespaces"]:
        assert LIBC.unshare(0x10000000 | 0x20000) == 0, os.strerror(ctypes.get_errno())
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {OPTIONS['uid']} 1")
        Path("/proc/self/gid_map").write_text(f"0 {OPTIONS['uid']} 1")
        assert LIBC.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0
    return kept


def replace(path: Path, by: Callable[[Path], None]) -> Path:
    """Renames what is there, and has something else at its place."""
    aside = path.with_name(f".aside-{secrets.token_hex(4)}")
    path.rename(aside)
    by(path)
    return aside


def link(path: Path) -> None:
    path.symlink_to(VICTIM)


def link_to_file(path: Path) -> None:
    path.symlink_to(f"{VICTIM}/file-0")


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
    path.symlink_to(path)


def folder(path: Path) -> None:
    path.mkdir(0o700)


def folder_with_links(path: Path) -> None:
    path.mkdir(0o700)
    (path / "agent.jar").symlink_to(f"{VICTIM}/file-1")
    (path / "look-1").symlink_to(VICTIM)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def fifo(path: Path) -> None:
    os.mkfifo(path)


BY = [link, link_to_file, device, loop, fifo, folder, folder_with_links, huge]


def named(pattern: str) -> Path:
    return CHANCE.choice(list(TMP.glob(pattern)))


def trick_folder() -> None:
    replace(named(".pulsar-doctor-*"), CHANCE.choice(BY))


def trick_back() -> None:
    """The very folder is there again, for the end of what was begun."""
    path = named(".pulsar-doctor-*")
    aside = replace(path, link)
    path.unlink()
    aside.rename(path)


def trick_mode() -> None:
    named(".pulsar-doctor-*").chmod(CHANCE.choice([0o777, 0o700, 0]))


def trick_within() -> None:
    path = named(".pulsar-doctor-*/*")
    replace(path, CHANCE.choice(BY))


def trick_beside() -> None:
    CHANCE.choice(BY)(named(".pulsar-doctor-*") / f"look-{secrets.token_hex(2)}")


def trick_attach() -> None:
    path = TMP / f".attach_pid{PID}"
    if path.exists() or path.is_symlink():
        replace(path, CHANCE.choice(BY))
    else:
        CHANCE.choice(BY)(path)


def trick_socket() -> None:
    path = TMP / f".java_pid{PID}"
    aside = replace(path, CHANCE.choice(BY))
    if CHANCE.random() < 0.7:
        time.sleep(CHANCE.random() / 200)
        path.rename(path.with_name(f".aside-{secrets.token_hex(4)}"))
        aside.rename(path)


def trick_counters() -> None:
    path = TMP / f"hsperfdata_{secrets.token_hex(2)}"
    if CHANCE.random() < 0.5:
        CHANCE.choice(BY)(path)
    else:
        path.mkdir()
        CHANCE.choice(BY)(path / str(PID))


def trick_tmp() -> None:
    """Its own /tmp is a link for a moment, or for long."""
    TMP.rename("/tmp-aside")
    TMP.symlink_to(VICTIM)
    time.sleep(CHANCE.choice([0, 0.002, 0.05]))
    TMP.unlink()
    Path("/tmp-aside").rename(TMP)


def play() -> None:
    while True:
        time.sleep(CHANCE.random() / 300)
        try:
            globals()[f"trick_{CHANCE.choice(OPTIONS['tricks'])}"]()
        except (OSError, IndexError):
            continue


def listen() -> None:
    server = socket.socket(socket.AF_UNIX)
    try:
        server.bind(f"/tmp/.java_pid{PID}")
    except OSError:  # its own tricks were in the way
        return
    server.listen(50)
    threading.Thread(target=serve, args=(server,), daemon=True).start()


def serve(server: socket.socket) -> None:
    while True:
        connection, _ = server.accept()
        threading.Thread(target=converse, args=(connection,), daemon=True).start()


def converse(connection: socket.socket) -> None:
    with connection:
        request = b""
        while request.count(b"\0") < 5:
            part = connection.recv(1 << 16)
            if not part:
                return
            request += part
        try:
            reply(connection, [each.decode() for each in request.split(b"\0")])
        except OSError:
            return


def reply(connection: socket.socket, words: list[str]) -> None:
    if OPTIONS["reply"] == "silent":
        time.sleep(600)
    if OPTIONS["reply"] == "trickles":
        connection.sendall(b"0\n")
        while True:
            connection.sendall(b"x")
            time.sleep(0.1)
    if OPTIONS["reply"] == "endless":
        while True:
            connection.sendall(b"0\n" * (1 << 16))
    if OPTIONS["reply"] == "wrong code":
        connection.sendall(b"7\nno, thank you")
        return
    if words[1] == "load":
        if OPTIONS["reply"] == "silent at load":
            time.sleep(600)
        write_answer(Path(words[4].split("\n")[-1]))
    connection.sendall(b"0\n" + (OPTIONS["dump"].encode() if words[1] == "threaddump" else b"0"))


def write_answer(path: Path) -> None:
    aside = None
    if "at load" in OPTIONS["tricks"]:
        aside = replace(path.parent, link)
    answer = OPTIONS["answer"]
    if by := next((each for each in BY if each.__name__ == answer), None):
        by(path)
    elif aside is None:
        path.write_text(GOOD if answer is None else answer)
    if answer == "of another":
        os.chown(path, 1, 1)


def name_thread() -> None:
    LIBC.prctl(15, b"Signal Dispatch", 0, 0, 0)
    NAMED.set()
    time.sleep(600)


def main() -> None:
    kept = settle()
    signal.signal(signal.SIGQUIT, lambda *_: listen())
    threading.Thread(target=name_thread, daemon=True).start()
    NAMED.wait()
    if tricks := [each for each in OPTIONS["tricks"] if each != "at load"]:
        OPTIONS["tricks"][:] = tricks
        threading.Thread(target=play, daemon=True).start()
    print("@ready", flush=True)
    while kept:
        time.sleep(0.05)  # a signal between two calls of it waits for its end


main()
