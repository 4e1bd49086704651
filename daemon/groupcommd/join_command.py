"""The first start of a daemon with a token: it joins before it runs."""

import argparse
import logging
import signal
import sys
from collections.abc import AsyncIterator

import attrs
import trio

from groupcomm.errors import ConfigError, GroupCommError
from groupcomm.joining.token import Token, decode_token
from groupcommd.config.config_file import JOINED, JoinWish, read_join_wish, read_seeds, with_joined
from groupcommd.config.config_tables import ConfigFile
from groupcommd.files.state_dir import StateDir
from groupcommd.files.state_owner import Owner
from groupcommd.joining.join_client import JoinPlan, JoinRefused, join, plan_of
from groupcommd.operators.logs import set_up_logs

LEFT, REFUSED = 0, 4
"""The exit statuses of a daemon that does not run after all."""

_log = logging.getLogger("groupcommd")


def join_first(options: argparse.Namespace) -> int | None:
    """Join the cluster of a token, unless the state folder says that this was done.

    Args:
        options: the command line; its name is set to that of the daemon.

    Returns:
        None once the daemon may start; else the exit status, after a line in the log.

    Raises:
        ConfigError: token, seeds or the file are wrong.
    """
    set_up_logs(as_json=options.json_log, verbose=options.verbose)
    token = _token(options.token)
    wish = read_join_wish(
        options.config,
        name=options.name,
        state_dir=options.state_dir,
        default=None if token is None else token.name,
    )
    options.name = wish.name
    if (wish.state_dir / JOINED).exists():
        if token is not None:
            check_same_cluster(token.cluster, wish)
            _log.info(
                "%s is there: this daemon has joined before, and the token is not used",
                wish.state_dir / JOINED,
            )
        return None
    if token is None:
        raise ConfigError(
            f"this daemon ({wish.name}) has not joined yet, and needs a token: at a daemon of the"
            f" cluster, groupcomm daemons invite {wish.name} makes one for --token; if it has"
            " joined under another name, give --name"
        )
    return _join(_plan(options, wish, token), wish)


def check_same_cluster(cluster: str, wish: JoinWish) -> None:
    """Raise ConfigError if a daemon has joined another cluster than that of its token."""
    joined = with_joined(ConfigFile(), wish.state_dir).cluster
    if joined != cluster:
        raise ConfigError(
            f"state_dir {wish.state_dir} belongs to daemon {wish.name} of cluster {joined}, and the"
            f" token is for cluster {cluster}: give this daemon a folder of its own with"
            " --state-dir; if it is to leave the other cluster for good, remove the folder"
        )


def _token(text: str | None) -> Token | None:
    if text == "-":
        text = sys.stdin.readline()
    elif text is not None:
        _log.warning(
            "the token is a word of the command, which all users of this host can see: write"
            " --token - and pass it on standard input"
        )
    return None if text is None else decode_token(text)


def _plan(options: argparse.Namespace, wish: JoinWish, token: Token) -> JoinPlan:
    seeds = wish.seeds if options.join is None else read_seeds(options.join.split(","))
    plan = plan_of(token, seeds, wish.own, options.port, wish.name)
    return attrs.evolve(plan, identity=wish.identity)


def _join(plan: JoinPlan, wish: JoinWish) -> int | None:
    state = StateDir(wish.state_dir)
    try:
        state.claim(Owner(plan.token.cluster, plan.token.name))
        return LEFT if trio.run(_run, plan, state) else None
    except JoinRefused as error:
        _log.error("not admitted: %s", error)
        return REFUSED
    finally:
        state.close()


async def _run(plan: JoinPlan, state: StateDir) -> bool:
    """Join; return whether a signal has ended that."""
    errors: list[GroupCommError | OSError] = []
    ended = True
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_end_on_signal, signals, nursery.cancel_scope)
            try:
                await join(plan, state)
            except (GroupCommError, OSError) as error:
                errors.append(error)
            ended = False
            nursery.cancel_scope.cancel()
    if errors:
        raise errors[0]
    return ended


async def _end_on_signal(signals: AsyncIterator[int], over: trio.CancelScope) -> None:
    async for _ in signals:
        _log.info("left before the cluster has admitted this daemon")
        over.cancel()
