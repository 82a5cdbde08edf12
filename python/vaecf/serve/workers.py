"""Worker processes, which share a socket and the pages of the model that their parent has read."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import stat
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import uvicorn

from ..errors import BusyError, Error, InputError, escape
from ..files import file_version
from ..library import free_memory
from .answers import ServedModel
from .app import App, Limits
from .protocol import Protocol
from .shared import Shared

GRACE = 10
"""Seconds in which running requests, and connections of a replaced worker, end."""

KEEP_ALIVE = 75
"""Seconds after which a connection without a further request is closed: more than the 60 of common proxies."""

SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}


def log(text: str) -> None:
    """Writes a line to standard error."""
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} vaecf serve: {escape(text)}", file=sys.stderr, flush=True)


def listen(address: str) -> socket.socket:
    """Returns a socket at HOST:PORT. Throws InputError if there is no such address, BusyError if it is in use."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise InputError(f"--listen {address}: must be HOST:PORT, such as 127.0.0.1:8000")
    host = host.removeprefix("[").removesuffix("]")
    try:
        family = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, int(port)), family=family, backlog=2048)
    except OSError as error:
        raise (BusyError if "in use" in str(error) else InputError)(f"--listen {address}: {error.strerror or error}") from None


def address_of(listener: socket.socket) -> str:
    """Returns the URL at which a socket of a port is reached."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def listen_at(path: Path) -> socket.socket:
    """Returns a Unix socket at a path, for the user alone. Takes the place of one that nobody listens at. Throws InputError if
    the path is another file, BusyError if somebody listens."""
    found = socket.socket(socket.AF_UNIX)
    before = os.umask(0o077)
    try:
        if path.exists() or path.is_symlink():
            if not stat.S_ISSOCK(path.lstat().st_mode):
                raise InputError(f"--socket {path}: is a file, but no socket; choose another path")
            with socket.socket(socket.AF_UNIX) as client:
                if client.connect_ex(str(path)) == 0:
                    raise BusyError(f"--socket {path}: is in use by another process")
            path.unlink()
        found.bind(str(path))
        found.listen(2048)
    except OSError as error:
        raise InputError(f"--socket {path}: {error.strerror or error}") from None
    finally:
        os.umask(before)
    return found


class _Server(uvicorn.Server):
    """The server of a worker. After SIGUSR1 it accepts no connection, and ends when those that it has are closed."""

    app: App
    _deadline = 0.0

    async def on_tick(self, counter: int) -> bool:
        """Receives signals from the first call on, when uvicorn handles them, and ends a worker that has been replaced."""
        if counter == 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS | {signal.SIGUSR1})
        if self.app.is_ending and not self._deadline:
            self._deadline = time.monotonic() + GRACE
            for server in self.servers:
                server.close()
        if self._deadline and (not self.server_state.connections or time.monotonic() > self._deadline):
            self.should_exit = True
        return await super().on_tick(counter)


def _work(app: App, listener: socket.socket, parent: int) -> None:
    """Answers requests until a signal, or the end of the parent, ends the worker."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        return
    Protocol.body_bytes = app.limits.body
    config = uvicorn.Config(
        app,
        http=Protocol,
        loop="uvloop",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
    )
    server = _Server(config)
    server.app = app
    app.connections = server.server_state.connections

    def end(*_: object) -> None:
        app.is_ending = True

    signal.signal(signal.SIGUSR1, end)
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: None)  # what uvicorn restores at its end
    server.run([listener])


class Workers:
    """The workers of a model and of those before it, seen from their parent."""

    def __init__(self, count: int, listener: socket.socket, limits: Limits) -> None:
        self.count, self.listener, self.limits = count, listener, limits
        self.shared = Shared(2 * count)  # those of one model may end while those of the next start
        self.places: dict[int, int] = {}  # by process
        self.current: set[int] = set()

    def start(self, model: ServedModel) -> None:
        """Starts as many workers as are missing."""
        parent = os.getpid()
        gc.collect()
        gc.freeze()  # a collection in a worker would write to, and so copy, the pages of all objects
        while len(self.current) < self.count:
            place = min(set(range(2 * self.count)) - set(self.places.values()))
            sys.stderr.flush()
            process = os.fork()
            if process == 0:
                status = 1
                try:
                    _work(App(model, self.limits, self.shared, place), self.listener, parent)
                    status = 0
                except BaseException:  # pylint: disable=broad-exception-caught
                    traceback.print_exc()
                finally:
                    os._exit(status)
            self.places[process] = place
            self.current.add(process)
        gc.unfreeze()

    def replace(self, model: ServedModel) -> None:
        """Starts workers of another model, and lets the others end with their connections."""
        others, self.current = self.current, set()
        self.start(model)
        for process in others:
            os.kill(process, signal.SIGUSR1)

    def are_ending(self) -> bool:
        """Returns whether workers that have been replaced have not ended yet."""
        return len(self.places) > len(self.current)

    def reap(self) -> None:
        """Removes the workers that have ended."""
        while self.places:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                return
            del self.places[process]
            if process in self.current:
                self.current.remove(process)
                log(f"a worker ended with status {os.waitstatus_to_exitcode(status)}; another one takes its place")

    def stop(self) -> None:
        """Ends all workers when they have answered what they are asked."""
        for process in self.places:
            os.kill(process, signal.SIGTERM)
        for process in self.places:
            os.waitpid(process, 0)


class Service:
    """The parent of the workers, which watches them and the file of the model."""

    def __init__(self, path: Path, load: Callable[[], ServedModel], workers: Workers, watch: bool) -> None:
        """`load` reads the file. `watch`: serve files that replace it."""
        self.path, self.load, self.workers, self.watch = path, load, workers, watch

    def run(self, place: str) -> None:
        """Serves until SIGTERM or SIGINT. `place`: where, for the log. Throws InputError if the file is not valid."""
        served = seen = file_version(self.path)
        model = self.load()
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS | {signal.SIGUSR1})
        self.workers.start(model)
        log(f"{_described(model)} at {place}")
        while True:
            found = signal.sigtimedwait(SIGNALS, 1)
            if found is not None and found.si_signo != signal.SIGCHLD:
                break
            self.workers.reap()
            if len(self.workers.current) < self.workers.count:
                time.sleep(1)  # not more often, if each one ends
                self.workers.start(model)
            before, seen = seen, file_version(self.path)
            # A file that is being written changes within a second. Those of the model before must have ended.
            if not self.watch or seen in (None, served) or seen != before or self.workers.are_ending():
                continue
            problem = None
            if free_memory() < 2 * seen[1]:
                problem = f"{self.path}: is not served yet, since less than twice its size of memory is free"
            else:
                served = seen
                try:
                    newer = self.load()
                except (Error, OSError, MemoryError) as error:
                    problem = f"{self.path}: is not served: {error}"
                else:
                    # The new workers shall not keep the pages of the old model.
                    model = newer
                    del newer
                    self.workers.replace(model)
                    log(f"{_described(model)} takes the place of the model before")
            if problem != self.workers.shared.message:
                self.workers.shared.message = problem
                if problem:
                    log(problem)
        log("answers what it was asked, and ends")
        self.workers.stop()


def _described(model: ServedModel) -> str:
    facts = model.loaded.facts
    return f"{facts['model']} of {facts['items']} items (checksum {facts['checksum']})"
