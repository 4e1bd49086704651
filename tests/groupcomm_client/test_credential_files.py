"""Files of credentials are read in a thread: a disk that does not answer holds up no other task."""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from groupcomm_client import ConnectOptions, TlsOptions
from groupcomm_client.aio import AsyncioLoop
from groupcomm_client.loops import Loop
from groupcomm_client.opening import SessionOpener
from groupcomm_client.trio_loop import TrioLoop

PATIENCE_S = 10.0


@pytest.mark.parametrize(
    ("run", "make"),
    [(trio.run, TrioLoop), (lambda call: asyncio.run(call()), AsyncioLoop)],
    ids=["trio", "asyncio"],
)
def test_other_tasks_go_on_while_a_file_of_credentials_is_read(
    run: Callable[[Callable[[], Awaitable[None]]], None], make: Callable[[], Loop], tmp_path: Path
) -> None:
    token = tmp_path / "token"
    os.mkfifo(token)  # whoever reads it waits until somebody writes it
    rescue = threading.Timer(PATIENCE_S, token.write_text, ("too late",))
    found: list[str] = []

    async def scenario() -> None:
        loop = make()
        opener = SessionOpener(
            *(loop, "tls://127.0.0.1:4804", "ann", ConnectOptions(), TlsOptions(token=token))
        )
        async with loop.tasks() as tasks:

            async def read() -> None:
                await opener.read_credentials()
                found.append(opener._token("tls://127.0.0.1:4804"))

            tasks.start(read)
            for _ in range(3):
                await loop.checkpoint()
            token.write_text("secret")
            while not found:
                await loop.sleep(0.001)

    rescue.start()
    run(scenario)
    rescue.cancel()
    assert found == ["secret"]
