"""`POST /v1/predict`: labels of texts. The one route that is called a thousand times a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from treetop.model import Label
from treetop.serve.batch import Row
from treetop.serve.reply import Reply, as_json
from treetop.serve.schema import PredictAnswer, PredictBody
from treetop.serve.served import Served
from treetop.serve.service import Service

MANY = 2000  # labels of an answer that is written on a thread, as others would wait for it


class Predict:
    """The handler, called without the framework's routing: by the gate, or by the protocol itself (`direct.py`)."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def __call__(self, body: bytes) -> Reply:
        """The answer to a request's bytes."""
        return Reply(await self.answer(PredictBody.model_validate_json(body)))

    async def answer(self, asked: PredictBody) -> bytes:
        """The answer to a request, as JSON."""
        question = self._question(asked)
        rows = await submitted(self.service, question.served, asked.texts, asked.k)
        if _is_short(asked):
            return question.answer(rows)
        return await asyncio.get_running_loop().run_in_executor(None, question.answer, rows)

    def start(self, body: bytes, done: Callable[[Reply | BaseException], None]) -> None:
        """Like a call, for those who cannot wait: `done` gets the answer, or what went wrong, later."""
        asked = PredictBody.model_validate_json(body)
        question = self._question(asked)

        def finish(rows: asyncio.Future[list[Row]]) -> None:
            if _is_short(asked) or rows.exception() is not None:
                tell(lambda: question.answer(rows.result()))
            else:
                written = asyncio.get_running_loop().run_in_executor(None, question.answer, rows.result())
                written.add_done_callback(lambda written: tell(written.result))

        def tell(written: Callable[[], bytes]) -> None:
            try:
                answer: Reply | BaseException = Reply(written())
            except Exception as error:
                answer = error
            done(answer)

        submitted(self.service, question.served, asked.texts, asked.k).add_done_callback(finish)

    def _question(self, asked: PredictBody) -> Question:
        served = self.service.shelf.served(asked.model)
        return Question(served, served.lowest(asked.threshold, asked.precision))


def _is_short(asked: PredictBody) -> bool:
    return asked.k * len(asked.texts) < MANY


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: a model, and the lowest probability of a label (None: any)."""

    served: Served
    lowest: float | None

    def answer(self, rows: list[Row]) -> bytes:
        """The model's rows, as JSON."""
        results = [
            {"labels": [_label(label) for label in accepted(row, self.lowest)], "unknown": row.unknown,
             "known_words": row.known_words}
            for row in rows
        ]  # fmt: skip
        return as_json({**self.served.stamp, "results": results})


def submitted(service: Service, served: Served, texts: list[str], k: int) -> asyncio.Future[list[Row]]:
    """Answers of the model, counted as texts in flight; refused where there are too many."""
    service.pressure.check()  # again: others may have come while the body was read
    service.pressure.enter(len(texts))
    answer = service.batcher.submit(served, texts, k)
    answer.add_done_callback(partial(_leave, service, service.slots[served.id], len(texts)))
    return answer


def _leave(service: Service, slot: int, texts: int, answer: asyncio.Future[list[Row]]) -> None:
    service.pressure.leave(texts)
    if answer.cancelled() or answer.exception() is not None:
        return
    for row in answer.result():
        best = row.labels[0] if row.labels else None
        service.metrics.saw(slot, row.unknown, row.known_words, best and best.score, best and best.probability)


def accepted(row: Row, lowest: float | None) -> list[Label]:
    """The labels with at least this probability; none for texts of which the model knows nothing."""
    if lowest is None:
        return row.labels
    return [] if row.unknown else [label for label in row.labels if (label.probability or 0.0) >= lowest]


def _label(label: Label) -> dict[str, Any]:
    return {"id": label.id, "name": label.name, "score": label.score, "probability": label.probability}


def router(predict: Predict) -> APIRouter:
    """The same handler as the framework's route, which puts it into `/openapi.json`."""
    routes = APIRouter()

    @routes.post("/v1/predict", response_model=PredictAnswer, tags=["predict"])
    async def _predict(asked: PredictBody) -> Response:
        """The best labels of up to 32 texts."""
        return Response(await predict.answer(asked), media_type="application/json")

    return routes
