"""The application: paths, limits of requests, and counters."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sized
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema
from pydantic_core import to_json
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from .. import __version__
from ..errors import Error, InputError
from ..texts import escaped
from .answers import ServedModel
from .requests import Problem, Recommend, Recommended, Similar, SimilarItems
from .shared import Shared

Fields = TypeVar("Fields", bound=BaseModel)

FEW = 16
"""Users whose lists take less time than passing them to a thread and back is worth."""


@dataclass(frozen=True)
class Limits:
    """The limits of a request and of connections."""

    body: int
    users: int
    k: int
    reasons: int
    connections: int


class Refused(Exception):
    """A request that is not answered, with the status of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class App:
    """Answers the requests that a worker receives."""

    def __init__(self, model: ServedModel, limits: Limits, shared: Shared, worker: int) -> None:
        """`worker`: the number of the worker, in whose numbers requests are counted."""
        self.model, self.limits, self.shared, self.worker = model, limits, shared, worker
        self.is_ending = False
        """Whether connections end after their next answer."""
        self.connections: Sized = ()
        """The connections of this worker."""
        self._threads = ThreadPoolExecutor(4)
        self._long = 0  # calls in threads
        self._calls: dict[tuple[str, str], Callable[[Request], Awaitable[Response]]] = {}
        name = escaped(model.model.path.name)
        self._app = FastAPI(title="vaecf serve", version=__version__, description=f"Recommends with {name}.")
        self._add_paths()

    def _add_paths(self) -> None:
        app, model = self._app, self.model
        describe = self._app.openapi
        problems: dict[int | str, dict[str, Any]] = {status: {"model": Problem} for status in (400, 413, 500, 503)}

        def openapi() -> dict[str, Any]:
            schema = describe()
            _, found = models_json_schema(
                [(each, "validation") for each in (Recommend, Similar)], ref_template="#/components/schemas/{model}"
            )
            schema["components"]["schemas"] |= found["$defs"]
            return schema

        def body_of(fields: type[BaseModel]) -> dict[str, Any]:
            content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{fields.__name__}"}}}
            return {"requestBody": {"required": True, "content": content}}

        app.openapi = openapi  # type: ignore[method-assign]

        async def recommend(request: Request) -> Response:
            """Returns the best items for each user."""
            return await self._answer(request, Recommend, model.recommend)

        async def similar(request: Request) -> Response:
            """Returns the items that are most similar to each of some items."""
            return await self._answer(request, Similar, model.similar)

        described: dict[str, tuple[Any, type[BaseModel], type[BaseModel]]] = {
            "/recommend": (recommend, Recommend, Recommended),
            "/similar": (similar, Similar, SimilarItems),
        }
        for path, (call, fields, answer) in described.items():
            app.post(path, responses={200: {"model": answer}, **problems}, openapi_extra=body_of(fields))(call)
            self._calls["POST", path] = call

        @app.get("/model")
        async def model_facts() -> JSONResponse:
            """Describes the model and the limits."""
            return JSONResponse({**model.describe(), "limits": vars(self.limits)})

        @app.get("/health")
        async def health() -> JSONResponse:
            """Returns the checksum of the model, and why a newer file is not served, if there is one."""
            return JSONResponse({"status": "ok", "model": model.loaded.facts["checksum"], "refused": self.shared.message})

        @app.get("/metrics", response_class=PlainTextResponse)
        async def metrics() -> PlainTextResponse:
            """Returns the counters of all workers as text for Prometheus."""
            return PlainTextResponse(self.shared.metrics())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request of uvicorn."""

        async def send_last(message: Message) -> None:
            if message["type"] == "http.response.start" and self.is_ending:
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        if len(self.connections) > self.limits.connections:
            message = f"a worker has at most {self.limits.connections} connections (--max-connections)"
            refused = JSONResponse({"error": message}, 503, {"connection": "close"})
            return await refused(scope, receive, send)
        # Without the router and the middleware of FastAPI, which take as long as half of the lists.
        if (call := self._calls.get((scope["method"], scope["path"]))) is None:
            return await self._app(scope, receive, send_last)
        response = await call(Request(scope, receive))
        await response(scope, receive, send_last)

    async def _answer(
        self, request: Request, fields: type[Fields], answer: Callable[[Fields], tuple[dict[str, Any], int]]
    ) -> Response:
        started = time.perf_counter()
        users = unknown = 0
        status = 200
        found: dict[str, Any] = {}
        try:
            asked = self._read(fields, await self._body(request))
            count = len(asked.users if isinstance(asked, Recommend) else asked.items)  # type: ignore[attr-defined]
            has_reasons = isinstance(asked, Recommend) and asked.reasons > 0
            # A network computes for one caller at a time, for which only a thread may wait.
            if count <= FEW and not has_reasons and self._long == 0:
                found, unknown = answer(asked)
            else:
                self._long += 1
                try:
                    found, unknown = await asyncio.get_running_loop().run_in_executor(self._threads, answer, asked)
                finally:
                    self._long -= 1
            users = count
        except (ClientDisconnect, asyncio.CancelledError):  # canceled: the worker ends before the whole body arrived
            status = 400
        except Refused as refused:
            status, found = refused.status, {"error": str(refused)}
        except Error as error:
            status, found = 400 if isinstance(error, InputError) else 500, {"error": str(error)}
        self.shared.count(self.worker, time.perf_counter() - started, status != 200, users, unknown)
        return Response(to_json(found, inf_nan_mode="null"), status, media_type="application/json")

    async def _body(self, request: Request) -> bytes:
        """Returns the body of a request. Throws Refused if it is longer than the limit."""
        largest = self.limits.body
        message = f"the body of a request has at most {largest} bytes (--max-body)"
        length = request.headers.get("content-length", "")
        if length.isascii() and length.isdigit() and (len(length) > 18 or int(length) > largest):
            raise Refused(413, message)
        body = bytearray()
        has_more = True
        while has_more:
            part = await request.receive()
            if part["type"] == "http.disconnect":
                raise ClientDisconnect
            body += part.get("body", b"")
            if len(body) > largest:
                raise Refused(413, message)
            has_more = part.get("more_body", False)
        return bytes(body)

    def _read(self, fields: type[Fields], body: bytes) -> Fields:
        """Returns the fields of a request. Throws Refused for invalid ones, and for more than the limits."""
        try:
            asked = fields.model_validate_json(body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise Refused(400, f"{place}: {first['msg']}" if place else str(first["msg"])) from None
        limits = self.limits
        lists, name = (asked.users, "users") if isinstance(asked, Recommend) else (asked.items, "items")  # type: ignore[attr-defined]
        if len(lists) > limits.users:
            raise Refused(413, f"{name}: a request has at most {limits.users} (--max-users), got {len(lists)}")
        if asked.k > limits.k:  # type: ignore[attr-defined]
            raise Refused(413, f"k: must be at most {limits.k} (--max-k), got {asked.k}")  # type: ignore[attr-defined]
        if isinstance(asked, Recommend) and asked.reasons > limits.reasons:
            raise Refused(413, f"reasons: must be at most {limits.reasons} (--max-reasons), got {asked.reasons}")
        return asked
