"""`vaecf serve` with clients that behave, and with others."""

import http.client
import json
import os
import random
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import Workspace, has_ended

import vaecf

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from vaecf.cli import main  # noqa: E402
from vaecf.errors import InputError  # noqa: E402
from vaecf.serve.workers import address_of, listen  # noqa: E402


class Server:
    """A running `vaecf serve`."""

    def __init__(self, arguments: list[str], change: str = "") -> None:
        """`change`: code that changes the package before."""
        code = f"import sys\n{change}\nfrom vaecf.cli import main\nsys.exit(main(['serve', *sys.argv[1:]]))"
        self.process = subprocess.Popen([sys.executable, "-c", code, *arguments], stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.stderr = self.process.stderr
        self.log = [self.stderr.readline()]
        found = re.search(r"\) at (?:http://(.*):(\d+)|(/.*))$", self.log[0])
        assert found, self.log[0] + self.stderr.read()
        self.place: Any = found[3] or (found[1], int(found[2]))

    def connect(self) -> socket.socket:
        """Returns a connection."""
        client = socket.socket(socket.AF_UNIX if isinstance(self.place, str) else socket.AF_INET)
        client.settimeout(60)
        client.connect(self.place)
        return client

    @contextmanager
    def client(self) -> Iterator[http.client.HTTPConnection]:
        """Returns a client that keeps its connection, and makes another one after an answer that ends it."""
        host, port = ("localhost", None) if isinstance(self.place, str) else self.place
        client = http.client.HTTPConnection(host, port, timeout=60)
        client.sock = self.connect()
        try:
            yield client
        finally:
            client.close()

    def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        """Returns the status and the answer to a request with a connection of its own."""
        with self.client() as client:
            return ask(client, path, body)

    def workers(self) -> list[int]:
        """Returns the processes that answer."""
        process = self.process.pid
        return [int(text) for text in Path(f"/proc/{process}/task/{process}/children").read_text().split()]

    def end(self) -> str:
        """Ends the server and returns the rest of its log; fails if the exit code is not 0."""
        self.process.terminate()
        _, text = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, text
        return text


def ask(client: http.client.HTTPConnection, path: str, body: Any = None) -> tuple[int, Any]:
    """Returns the status and the answer to a request."""
    if body is None:
        client.request("GET", path)
    else:
        client.request("POST", path, body if isinstance(body, (bytes, str)) else json.dumps(body))
    answer = client.getresponse()
    text = answer.read().decode()
    is_json = answer.headers["content-type"] == "application/json"
    return answer.status, json.loads(text) if is_json else text


@contextmanager
def serving(path: Path, *arguments: str, change: str = "") -> Iterator[Server]:
    """Starts a server of a checkpoint and ends it."""
    place = [] if "--socket" in arguments else ["--listen", "127.0.0.1:0"]
    server = Server([str(path), *place, *arguments], change)
    try:
        yield server
        server.end()
    finally:
        server.process.kill()
        server.process.communicate()


def checkpoint(workspace: Workspace, name: str) -> Path:
    """Returns the checkpoint of a run."""
    return workspace.folder / "runs" / name / "checkpoints" / "best.h5"


def close(found: list[Any], wanted: Any) -> None:
    """Compares numbers, which are missing at the same places."""
    np.testing.assert_allclose(np.array(found, np.float64), np.array(wanted, np.float64), rtol=1e-5, atol=1e-5)


@pytest.fixture(name="server", scope="module")
def _server(workspace: Workspace) -> Iterator[Server]:
    with serving(checkpoint(workspace, "ease"), "--workers", "2") as server:
        yield server


def _close(found: list[Any], wanted: Any) -> None:
    np.testing.assert_allclose(np.array(found, np.float64), np.array(wanted, np.float64), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["ease", "recvae_features", "elsa_weighted", "item_knn_weighted"])
def test_lists_are_those_of_the_model(workspace: Workspace, name: str) -> None:
    model = vaecf.Model(checkpoint(workspace, name))
    ids = model.item_id.tolist()
    histories = [ids[3:9], [ids[4], str(ids[50]), ids[4]], [], ids[60:110:3]]
    users = ["ann", "7", "empty", "many"]
    asked: list[dict[str, Any]] = [{"user": user, "items": list(items)} for user, items in zip(users, histories, strict=True)]
    rows = model.histories(histories)
    if model.interaction_weights:
        plays = [[1 + n % 5 for n, _ in enumerate(items)] for items in histories]
        for user, values in zip(asked, plays, strict=True):
            user["items"] = [[item, value] for item, value in zip(user["items"], values, strict=True)]
        histories[1], plays[1] = histories[1][:2], plays[1][:2]  # the first value of an item counts
        rows = model.histories(histories, plays)
    features = None
    if model.n_user_features:
        columns = model._loaded.facts["user_feature_columns"]
        of_users: list[dict[str, Any]] = [{columns[0]: 3, columns[1]: ["v2", "v3"]}, {}, {}, {columns[1]: "v2"}]
        table = pd.DataFrame([[of.get(column, []) for column in columns] for of in of_users], columns=columns)
        features = model.user_features_of(table)
        for user, of in zip(asked, of_users, strict=True):
            user["user_features"] = of
    with serving(checkpoint(workspace, name)) as server:
        status, found = server.ask("/recommend", {"users": asked, "k": 8, "reasons": 2})
        assert status == 200 and [answer.pop("user") for answer in found["users"]] == users
        lists = model.recommend(rows, k=8, users=users, reasons=2, user_features=features)
        for user, answer in zip(users, found["users"], strict=True):
            mine = lists[lists["user"] == user]
            assert answer.keys() == {"items", "scores", "because", "contribution"}
            assert answer["items"] == mine["item"].tolist()
            close(answer["scores"], mine["score"])
            for n in range(2):
                reasons = [each[n] if n < len(each) else None for each in answer["because"]]
                because = mine[f"because_{n + 1}"]
                assert reasons == because.astype(object).where(because.notna(), None).tolist()
                close([each[n] if n < len(each) else None for each in answer["contribution"]], mine[f"contribution_{n + 1}"])
        choice = {"include": [*ids[:40], "new"], "exclude": [ids[2], "old"], "keep_seen": True}
        asked[0] |= {"exclude": [ids[5], "sold"]}
        asked[3]["items"] += ["gone", -5]
        status, found = server.ask("/recommend", {"users": asked, "k": 100, **choice})
        assert status == 200 and found["unknown"] == ["new", "old"]
        exclude = {user: [ids[2], ids[5]] if user == "ann" else [ids[2]] for user in users}
        lists = model.recommend(
            rows, k=100, users=users, user_features=features, keep_seen=True, include=ids[:40], exclude=exclude
        )
        for user, answer in zip(users, found["users"], strict=True):
            assert answer["items"] == lists[lists["user"] == user]["item"].tolist()
            assert len(answer["items"]) == 39 - (user == "ann")
        assert [answer.get("unknown") for answer in found["users"]] == [["sold"], None, None, ["gone", "-5"]]
        status, found = server.ask("/similar", {"items": [ids[7], "none", ids[3]], "k": 5})
        assert status == 200 and found["unknown"] == ["none"]
        lists = model.similar([ids[7], ids[3]], k=5)
        for item, answer in zip((ids[7], ids[3]), found["items"], strict=True):
            mine = lists[lists["item"] == item]
            assert answer == {"item": item, "similar": mine["similar"].tolist(), "scores": mine["score"].tolist()}
        assert server.ask("/recommend", {"users": []}) == (200, {"users": []})
        assert server.ask("/similar", {"items": ["none"]}) == (200, {"items": [], "unknown": ["none"]})


def test_titles_and_limits_of_categories(workspace: Workspace, tmp_path: Path) -> None:
    ids = vaecf.Model(checkpoint(workspace, "ease")).item_id.tolist()
    genre = {item: ["drama", "comedy|war", "war"][n % 3] for n, item in enumerate(ids)}
    lines = [f"{item},{name},x" for item, name in [*genre.items(), ("unknown", "drama")]]
    (tmp_path / "items.csv").write_text("\n".join(["item,genre,other", *lines, ""]))
    options = ["--at-most", str(tmp_path / "items.csv"), "2", "--category-column", "genre"]
    model = vaecf.Model(checkpoint(workspace, "ease"))
    with serving(checkpoint(workspace, "ease"), *options) as server:
        for given, n in (({}, 2), ({"at_most": 3}, 3), ({"at_most": 0}, 120)):
            status, found = server.ask("/recommend", {"users": [{"items": ids[:3]}], "k": 9, **given})
            lists = model.recommend([ids[:3]], k=9, at_most=(genre, n))
            assert status == 200 and found["users"][0]["items"] == lists["item"].tolist()
        assert server.ask("/recommend", {"users": [], "titles": True})[1] == {
            "error": "titles: the checkpoint contains no titles of items"
        }


def test_paths_describe_the_model_and_the_interface(workspace: Workspace, server: Server) -> None:
    facts = vaecf.Model(checkpoint(workspace, "ease"))._loaded.facts
    status, found = server.ask("/model")
    assert status == 200 and found["model"] == "ease" and found["items"] == 120 and found["limits"]["k"] == 1000
    assert server.ask("/health") == (200, {"status": "ok", "model": facts["checksum"], "refused": None})
    interface = server.ask("/openapi.json")[1]
    assert {"/recommend", "/similar", "/model", "/health", "/metrics"} <= set(interface["paths"])
    defined = {f"#/components/schemas/{name}" for name in interface["components"]["schemas"]}
    assert set(re.findall(r'"(#/components[^"]*)"', json.dumps(interface))) <= defined
    assert "users" in interface["components"]["schemas"]["Recommend"]["properties"]
    assert "openapi.json" in server.ask("/docs")[1]
    before = metrics_of(server)
    server.ask("/recommend", {"users": [{"items": ["a", "b"]}, {}], "k": 2})
    server.ask("/recommend", {"users": 3})
    after = {name: value - before[name] for name, value in metrics_of(server).items()}
    assert [after[f"vaecf_{name}_total"] for name in ("requests", "errors", "users", "unknown_ids")] == [2, 1, 2, 2]
    assert after["vaecf_request_seconds_count"] == after['vaecf_request_seconds_bucket{le="+Inf"}'] == 2
    assert 0 < after["vaecf_request_seconds_sum"] < 60


def metrics_of(server: Server) -> dict[str, float]:
    """Returns the values that /metrics states."""
    lines = [line.rpartition(" ") for line in server.ask("/metrics")[1].splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/recommend", "{", 400, "Invalid JSON"),
        ("/recommend", b"\xff", 400, "Invalid JSON"),
        ("/recommend", "[" * 100_000, 400, "Invalid JSON"),
        ("/recommend", {"user": 1}, 400, "users: Field required"),
        ("/recommend", {"users": [{"item": [1]}]}, 400, "users.0.item: Extra inputs"),
        ("/recommend", {"users": [{"items": [1.5]}]}, 400, "users.0.items.0"),
        ("/recommend", {"users": [{"items": [[1, 2]]}]}, 400, "without interaction weights"),
        ("/recommend", {"users": [{"user_features": {"age": 3}}]}, 400, "without features"),
        ("/recommend", {"users": [], "k": 0}, 400, "k: "),
        ("/recommend", {"users": [], "k": True}, 400, "k: "),
        ("/recommend", {"users": [], "k": 1001}, 413, "k: must be at most 1000 (--max-k), got 1001"),
        ("/recommend", {"users": [], "reasons": 11}, 413, "reasons: must be at most 10 (--max-reasons), got 11"),
        ("/recommend", {"users": [], "at_most": 2}, 400, "start it with --at-most FILE N"),
        ("/recommend", {"users": [{"items": [1]}], "include": ["none"]}, 400, "no item is left to recommend"),
        ("/recommend", {"users": [{}] * 1001}, 413, "users: a request has at most 1000 (--max-users), got 1001"),
        ("/similar", {"items": [1] * 1001}, 413, "items: a request has at most 1000 (--max-users), got 1001"),
        ("/recommend", " " * (1 << 20) + "{}", 413, "a request has at most 1048576 bytes (--max-body)"),
    ],
)
def test_wrong_requests_have_errors_of_their_own(server: Server, path: str, body: Any, status: int, message: str) -> None:
    found, answer = server.ask(path, body)
    assert found == status and answer.keys() == {"error"} and message in answer["error"]


def test_a_body_in_chunks_has_the_same_limit(server: Server) -> None:
    with server.client() as client:
        for size, status in (((1 << 20) - 100, 200), (1 << 20, 413), (1 << 22, 413)):
            text = b'{"users":[{"items":[]}],"k":1}' + b" " * size
            parts = (text[at : at + 30_000] for at in range(0, len(text), 30_000))
            client.request("POST", "/recommend", parts, encode_chunked=True)
            answer = client.getresponse()
            assert answer.status == status and (b"--max-body" in answer.read()) == (status == 413)


HEAD = b"POST /recommend HTTP/1.1\r\nhost: x\r\n"


@pytest.mark.parametrize(
    ("start", "line"),
    [
        (b"", b"GET /"),
        (b"GET / HTTP/1.1\r\n", b"x: "),
        (b"GET / HTTP/1.1\r\n", None),
        (HEAD + b"transfer-encoding: chunked\r\n\r\n1;", b"x"),
        (HEAD + b"transfer-encoding: chunked\r\n\r\n1\r\n \r\n0\r\nx: ", b"y"),
    ],
)
def test_lines_without_end_end_the_connection(server: Server, start: bytes, line: bytes | None) -> None:
    before = memory_of(server.workers())
    with server.connect() as client, suppress(ConnectionError):
        client.sendall(start + (line or b""))
        for n in range(1000):  # 64 MB
            client.sendall(b"a" * (1 << 16) if line else b"".join(b"x%d-%d: y\r\n" % (n, k) for k in range(4000)))
        pytest.fail("the server reads on")
    assert memory_of(server.workers()) < before + (24 << 20)
    assert server.ask("/health")[0] == 200


def memory_of(processes: list[int]) -> int:
    """Returns the bytes of memory that processes have."""
    lines = [Path(f"/proc/{each}/status").read_text() for each in processes]
    return sum(int(re.findall(r"RssAnon:\s+(\d+)", text)[0]) * 1024 for text in lines)


def test_truncated_and_random_requests_change_nothing(server: Server) -> None:
    workers, generator = server.workers(), random.Random(7)
    body = json.dumps({"users": [{"user": "ann", "items": [3, "x"], "exclude": [5]}], "k": 3, "include": None}).encode()
    valid = HEAD + b"content-length: %d\r\n\r\n" % len(body) + body
    for n in range(300):
        if n % 3 == 0:
            text = valid[: generator.randrange(len(valid))]
        elif n % 3 == 1:
            text = generator.randbytes(generator.randrange(1, 2000))
        else:
            changed = bytearray(valid)
            for _ in range(generator.randrange(1, 9)):
                changed[generator.randrange(len(changed))] = generator.randrange(256)
            text = bytes(changed)
        with server.connect() as client, suppress(ConnectionError):
            client.sendall(text)
            client.shutdown(socket.SHUT_WR)
            client.settimeout(0.05)
            with suppress(TimeoutError):
                while client.recv(1 << 16):
                    pass
    for _ in range(300):  # valid HTTP with other JSON
        changed = bytearray(body)
        for _ in range(generator.randrange(1, 5)):
            changed[generator.randrange(len(changed))] = generator.randrange(32, 127)
        assert server.ask("/recommend", bytes(changed))[0] in (200, 400)
    assert server.workers() == workers and server.ask("/health")[0] == 200


def test_idle_and_slow_connections_do_not_delay_others(workspace: Workspace) -> None:
    with serving(checkpoint(workspace, "ease")) as server:
        others = [server.connect() for _ in range(128)]
        try:
            times = []
            for n in range(20):
                for slow in others[64:]:
                    slow.sendall((HEAD + b"content-length: 9\r\n\r\n")[n : n + 1])
                start = time.monotonic()
                assert server.ask("/recommend", {"users": [{"items": [1, 2]}]})[0] == 200
                times.append(time.monotonic() - start)
            assert min(times) < 0.1 and sorted(times)[10] < 1  # other processes may delay some
        finally:
            for each in others:
                each.close()


def test_connections_beyond_the_limit_have_an_error(workspace: Workspace) -> None:
    with serving(checkpoint(workspace, "ease"), "--max-connections", "4") as server:
        others = [server.connect() for _ in range(4)]
        deadline = time.monotonic() + 60
        while (found := server.ask("/health"))[0] != 503:
            assert time.monotonic() < deadline
        assert found[1] == {"error": "a worker has at most 4 connections (--max-connections)"}
        for each in others:
            each.close()
        while server.ask("/health")[0] != 200:
            assert time.monotonic() < deadline


def test_connections_without_a_request_are_closed(workspace: Workspace) -> None:
    change = "import vaecf.serve.protocol as protocol; protocol.SECONDS = 1"
    with serving(checkpoint(workspace, "ease"), change=change) as server:
        for text in (b"", b"GET /health HT", HEAD + b"content-length: 9\r\n\r\n12"):
            with server.connect() as client:
                client.sendall(text)
                assert client.recv(1000) == b""


def test_memory_does_not_grow(workspace: Workspace) -> None:
    ids = vaecf.Model(checkpoint(workspace, "ease")).item_id.tolist()
    bodies = []
    for n in range(30):
        users = [{"items": [*ids[n : n + 30], "unknown"], "exclude": ids[:2]}] * (1 + n)
        bodies.append({"users": users, "k": 20, "exclude": ids[:n], "reasons": n % 2})
    with serving(checkpoint(workspace, "ease")) as server, server.client() as client:
        sizes = []
        for _ in range(3):
            for n in range(int(os.environ.get("VAECF_SERVE_REQUESTS", "400"))):
                assert ask(client, "/recommend", bodies[n % 30])[0] == 200
            sizes.append(memory_of(server.workers()))
        assert sizes[2] - sizes[1] < 1 << 20, sizes


def test_sigterm_ends_requests_that_never_arrive_without_a_trace(workspace: Workspace) -> None:
    with serving(checkpoint(workspace, "ease")) as server:
        clients = [server.connect() for _ in range(3)]
        for client in clients:
            client.sendall(HEAD + b"content-length: 100\r\n\r\n{")
        assert server.ask("/health")[0] == 200
        assert "Traceback" not in server.end()
        for client in clients:
            client.close()


def test_sigterm_ends_after_the_answers(
    workspace: Workspace, tmp_path: Path, wait_for: Callable[[Callable[[], object]], None]
) -> None:
    change = (
        "import time, vaecf.serve.answers as answers\n"
        "ask = answers.ServedModel.recommend\n"
        f"def slowly(self, asked): open({str(tmp_path / 'asked')!r}, 'w'); time.sleep(2); return ask(self, asked)\n"
        "answers.ServedModel.recommend = slowly"
    )
    with serving(checkpoint(workspace, "ease"), "--workers", "2", change=change) as server:
        found = []
        body = {"users": [{"items": [1]}] * 30}
        thread = threading.Thread(target=lambda: found.append(server.ask("/recommend", body)))
        with server.client() as idle:
            assert ask(idle, "/health")[0] == 200
            thread.start()
            wait_for((tmp_path / "asked").exists)
            server.end()
            thread.join()
            assert found[0][0] == 200 and len(found[0][1]["users"]) == 30
            with pytest.raises((ConnectionError, http.client.HTTPException)):
                ask(idle, "/health")


def test_a_socket_is_for_the_user_alone_and_takes_the_place_of_a_dead_one(workspace: Workspace, tmp_path: Path) -> None:
    path, file = tmp_path / "serve.sock", checkpoint(workspace, "ease")
    command = [sys.executable, "-m", "vaecf", "serve", str(file), "--socket", str(path)]
    for kill in (True, False):  # the second one finds the socket of the first one, which was killed
        server = Server([str(file), "--socket", str(path)])
        assert stat.S_IMODE(path.stat().st_mode) == 0o700 and server.place == str(path)
        assert server.ask("/health")[0] == 200
        other = subprocess.run(command, capture_output=True, text=True, check=False)
        assert other.returncode == 3 and "is in use by another process" in other.stderr
        assert server.ask("/health")[0] == 200
        if kill:
            workers = server.workers()
            server.process.kill()
            server.process.communicate()
            assert path.exists()
            deadline = time.monotonic() + 60
            while not all(map(has_ended, workers)):
                assert time.monotonic() < deadline
        else:
            server.end()
            assert not path.exists()
    path.write_text("notes")
    other = subprocess.run(command, capture_output=True, text=True, check=False)
    assert other.returncode == 2 and "is a file, but no socket" in other.stderr and path.read_text() == "notes"


def test_a_worker_that_is_killed_is_replaced(workspace: Workspace, wait_for: Callable[[Callable[[], object]], None]) -> None:
    with serving(checkpoint(workspace, "ease"), "--workers", "2") as server:
        before = server.workers()
        os.kill(before[0], signal.SIGKILL)
        assert "a worker ended with status -9" in server.stderr.readline()
        wait_for(lambda: len(server.workers()) == 2)
        after = server.workers()
        assert before[0] not in after and before[1] in after
        assert server.ask("/health")[0] == 200


def test_a_newer_model_takes_the_place_between_two_requests(
    workspace: Workspace, tmp_path: Path, wait_for: Callable[[Callable[[], object]], None]
) -> None:
    path = tmp_path / "best.h5"
    file = str(tmp_path / "free")
    change = f"import vaecf.serve.workers as workers; workers.free_memory = lambda: int(open({file!r}).read())"
    names = "ease", "elsa"
    checksums = {name: vaecf.Model(checkpoint(workspace, name))._loaded.facts["checksum"] for name in names}

    def put(name: str, damage: bool = False) -> None:
        content = bytearray(checkpoint(workspace, name).read_bytes())
        content[-9] ^= damage
        (tmp_path / "new.h5").write_bytes(content)
        os.replace(tmp_path / "new.h5", path)

    put("ease")
    (tmp_path / "free").write_text(str(1 << 40))
    with serving(path, "--watch", "--workers", "2", change=change) as server:
        asked = {"users": [{"items": [3, 5]}]}
        stop, found = threading.Event(), {0: 0, 1: 0}

        def work(number: int) -> None:
            with server.client() as client:
                while not stop.is_set():
                    status, answer = ask(client, "/recommend", asked)
                    assert status == 200 and len(answer["users"][0]["items"]) == 10
                    found[number] += 1

        threads = [threading.Thread(target=work, args=(number,)) for number in found]
        for each in threads:
            each.start()

        def health() -> Any:
            return server.ask("/health")[1]

        put("elsa", damage=True)
        assert "is not served: " in server.stderr.readline()
        assert health()["model"] == checksums["ease"] and "is damaged" in health()["refused"]
        size = path.stat().st_size
        (tmp_path / "free").write_text(str(2 * size - 1000))
        put("elsa")
        assert "less than twice its size of memory is free" in server.stderr.readline()
        assert health()["model"] == checksums["ease"] and "is not served yet" in health()["refused"]
        old = server.workers()
        (tmp_path / "free").write_text(str(2 * size + 1000))
        assert "elsa of 120 items" in server.stderr.readline()
        wait_for(lambda: all(map(has_ended, old)))
        assert health() == {"status": "ok", "model": checksums["elsa"], "refused": None}
        path.unlink()
        before = dict(found)
        wait_for(lambda: all(found[number] > before[number] + 50 for number in found))
        stop.set()
        for each in threads:
            each.join()
        assert not set(old) & set(server.workers()) and len(server.workers()) == 2
        assert metrics_of(server)["vaecf_errors_total"] == 0


def test_address_of_a_socket_is_a_url() -> None:
    for host in ("127.0.0.1", "[::1]"):
        with suppress(InputError):  # a machine without IPv6
            with listen(f"{host}:0") as listener:
                assert re.fullmatch(rf"http://{re.escape(host)}:[1-9]\d+", address_of(listener))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--listen", "8000"], "must be HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], "must be HOST:PORT"),
        (["--listen", "no.such.host.invalid:80"], "--listen no.such.host.invalid:80: "),
        (["--at-most", "none.csv", "2"], "--at-most none.csv: cannot be read"),
        (["--at-most", "none.csv", "0"], "N must be 1 or more"),
        (["--max-users", "5000"], "must be 1 to 1024"),
    ],
)
def test_wrong_options_are_errors(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code: Any = main(["serve", "best.h5", *options])
    except SystemExit as end:
        code = end.code
    assert code == 2 and message in capsys.readouterr().err


def test_a_port_in_use_and_a_damaged_model_are_errors(workspace: Workspace, server: Server, tmp_path: Path) -> None:
    (tmp_path / "damaged.h5").write_bytes(checkpoint(workspace, "ease").read_bytes()[:-9])
    for path, port, code, message in (
        (checkpoint(workspace, "ease"), server.place[1], 3, "Address already in use"),
        (tmp_path / "damaged.h5", 0, 2, "damaged.h5"),
    ):
        command = [sys.executable, "-m", "vaecf", "serve", str(path), "--listen", f"127.0.0.1:{port}"]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert result.returncode == code and message in result.stderr


def test_without_fastapi_a_message_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "fastapi.py").write_text("raise ImportError('no fastapi')")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, "-m", "vaecf", "serve", "best.h5"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "vaecf serve requires FastAPI and uvicorn (no fastapi); install them with: pip install" in result.stderr
    assert "[serve]'" in result.stderr
