"""Connections of commands, opened as the options on the command line say.

Commands that do one thing at a time use `connect_blocking`, which imports no event loop.
"""

import argparse
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any

from groupcomm.errors import GroupCommError
from groupcomm_client import ConnectOptions, TlsOptions, blocking
from groupcomm_client.blocking import BlockingConnection

if TYPE_CHECKING:
    from groupcomm_client.connection import Connection


def connect_blocking(
    options: argparse.Namespace, *, reconnect: bool = False
) -> AbstractContextManager[BlockingConnection]:
    """Return a connection for a block, with calls that wait.

    Args:
        options: the options, as `groupcomm_tools.commands.options.add_connection_options` declares
            them.
        reconnect: open another session when one ends.

    Raises:
        CannotConnect: no daemon answers, or it does not admit this session.
    """
    return blocking.connect(
        options.address,
        user=options.user,
        reconnect=reconnect,
        options=ConnectOptions(trace=options.trace),
        tls=TlsOptions(
            ca=options.ca,
            certificate=options.certificate,
            key=options.key,
            token=options.token_file,
        ),
    )


def connect_trio(
    options: argparse.Namespace, *, causes: bool = False, principals: bool = False
) -> AbstractAsyncContextManager["Connection"]:
    """Return a connection for the length of a block in a program that uses trio.

    Args:
        options: the options, as in `connect_blocking`.
        causes: whether each message names the messages that it depends on.
        principals: whether each message names the owner of its sender.

    Raises:
        CannotConnect: no daemon answers, or it does not admit this session.
    """
    from groupcomm_client import connect  # noqa: PLC0415 - imports trio

    return connect(
        options.address,
        user=options.user,
        options=ConnectOptions(trace=options.trace, causes=causes, principals=principals),
        tls=TlsOptions(
            ca=options.ca,
            certificate=options.certificate,
            key=options.key,
            token=options.token_file,
        ),
    )


def check_daemon(options: argparse.Namespace) -> None:
    """Connect to the daemon that the options name, and leave it again.

    Raises:
        CannotConnect: no daemon answers, or it does not admit this session.
    """
    with connect_blocking(argparse.Namespace(**{**vars(options), "trace": None})):
        pass


class RequestRefused(GroupCommError):
    """A daemon refuses a request; the text is the daemon's."""


def accepted(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a daemon; raise RequestRefused if it is a refusal."""
    if "error" in answer:
        raise RequestRefused(answer["error"])
    return answer


def ask_daemon(options: argparse.Namespace, question: str) -> dict[str, Any]:
    """Return the answer of the daemon that the options name.

    Raises:
        CannotConnect: no daemon answers, or it does not admit this session.
    """
    with connect_blocking(options) as connection:
        return connection.ask(question)
