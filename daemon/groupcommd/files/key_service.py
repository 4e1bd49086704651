"""Keys of a running daemon: commands of its operators, and the files of keys and identities.

Commands come from the daemon's own user or from root on its host, as questions that begin with
``keys``. docs/security.md has the steps of a rotation.
"""

import json
import logging
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

from groupcomm.engine import DaemonCore, Evict, LoadKeys, PromoteKey, RetireKey, Status
from groupcomm.errors import ConfigError, GroupCommError, LocalProtocolError
from groupcomm.host.key_file import agreed, change_key_file, read_key_file
from groupcomm.security.identity import Roll
from groupcomm.security.keys import KeyRing
from groupcomm.wire.eviction import Eviction
from groupcommd.files.identity_file import change_roll, read_roll, with_evicted
from groupcommd.host.process import retry_while_exhausted
from groupcommd.programs.local_users import owners

KNOWN: Final = "keys, keys reload, keys promote N, keys retire N [without-missing], keys evict NAME"

RELOAD_KEYS: Final = ["keys", "reload"]
"""The words of the command that reads files: see `KeyService.answer_reload`."""

_NO_KEYS: Final = "this daemon has no key_file: set key_file, and restart the daemon"
_NEW_IDENTITY: Final = (
    "once its host is sound again, make a new one with groupcomm identity new, and add its public"
    " key to the identities of all hosts"
)
_ANYWAY: Final = ["without-missing"]
_log = logging.getLogger("groupcommd")


def may_change_keys(principal: str) -> bool:
    """Return whether a program runs as the daemon's user or as root.

    Others may change neither keys nor the roster.
    """
    return principal in owners()


def evicted_text(name: str, notice: Eviction) -> str:
    """Return the sentence with which a daemon ends that another one has told of its eviction."""
    return (
        f"this daemon was evicted: {name} says that the others do not trust its identity any more"
        + (f", and that roster {notice.roster} does not have it" if notice.removed else "")
        + f"; {_NEW_IDENTITY}"
        + ("; then groupcomm daemons add at one of them" if notice.removed else "")
    )


class KeyService:
    """The keys of one start of a daemon.

    Args:
        core: the daemon's core.
        path: the key file; None without one.
        identities: the file of all daemons' identities; None if they have none.
    """

    def __init__(self, core: DaemonCore, path: Path | None, identities: Path | None) -> None:
        self._core = core
        self._path = path
        self._identities = identities
        self._logged: set[int] = set()  # missing keys that were logged
        self._logged_unknown = False  # an unproven datagram with a missing key was logged
        self._alone = True  # this daemon was never in a view with others

    # ---- commands ----

    def answer(self, question: str, *, allowed: bool) -> bytes:
        """Answer a question, or carry out a command, that begins with ``keys``; return JSON."""
        try:
            found = self._answer(question.split(), allowed=allowed)
        except (GroupCommError, OSError) as error:
            found = {"error": str(error)}
        return json.dumps(found, ensure_ascii=False).encode()

    def _answer(self, words: list[str], *, allowed: bool) -> dict[str, Any]:
        match words[1:]:
            case []:
                told = self._core.status(trio.current_time()).keys.description
                if told is None:
                    raise ConfigError(_NO_KEYS)
                return dict(told)
            case _ if not allowed:
                raise LocalProtocolError(
                    "only the daemon's own user and root may change keys: run the command on its"
                    " host, as that user, with the address of its unix socket"
                )
            case ["promote", number] if number.isdigit():
                self._core.command(PromoteKey(int(number)))
                _log.info("all daemons are asked to seal with key %s", number)
            case ["evict", name]:
                self._core.command(Evict(name))
                _log.info("all daemons are asked to evict %s", name)
            case ["retire", number, *more] if number.isdigit() and more in ([], _ANYWAY):
                self._core.command(RetireKey(number=int(number), without_missing=bool(more)))
                _log.info("all daemons are asked to erase key %s", number)
            case _:
                raise LocalProtocolError(
                    f"unknown command {' '.join(words)[:80]!r}: ask for {KNOWN}"
                )
        return {"asked": " ".join(words[1:])}

    async def answer_reload(self) -> bytes:
        """Carry out ``keys reload``, which waits for the disk; return JSON."""
        try:
            self.use(await trio.to_thread.run_sync(self.read, abandon_on_cancel=True))
        except (GroupCommError, OSError) as error:
            return json.dumps({"error": str(error)}, ensure_ascii=False).encode()
        return json.dumps({"asked": "reload"}).encode()

    def read(self) -> LoadKeys:
        """Read the files of keys and identities again, which may wait for the disk.

        Raises:
            ConfigError: a file is wrong.
            OSError: a file cannot be read.
        """
        if self._path is None:
            raise ConfigError(_NO_KEYS)
        keys = read_key_file(self._path)
        return LoadKeys(keys, None if self._identities is None else read_roll(self._identities))

    def use(self, read: LoadKeys) -> None:
        """Use the contents of the files.

        Raises:
            LocalProtocolError: they lack a key in use; nothing changes.
        """
        self._core.command(read)
        _log.info("key file read again: keys %s", ", ".join(map(str, sorted(read.keys.keys))))

    # ---- the key file ----

    async def store(self, keys: KeyRing) -> None:
        """Write the agreed keys to the key file; a failure is logged, and has no other effect."""
        assert self._path is not None
        try:
            change = partial(change_key_file, self._path, partial(agreed, keys))
            await retry_while_exhausted(f"key_file {self._path}", change)
        except (GroupCommError, OSError) as error:
            _log.error(
                "key_file %s was not rewritten: %s; before the next restart, repair it: "
                "it must have active = %d",
                self._path,
                error,
                keys.active,
            )
        else:
            numbers = ", ".join(map(str, sorted(keys.keys)))
            _log.info(
                "%s was rewritten: keys %s, of which %d seals", self._path, numbers, keys.active
            )

    async def store_roll(self, roll: Roll) -> None:
        """Write the evicted daemons to the file; a failure is logged, and has no other effect."""
        assert self._identities is not None
        names = ", ".join(sorted(set(roll.evicted.values())))
        try:
            change = partial(change_roll, self._identities, partial(with_evicted, roll))
            await retry_while_exhausted(f"identities {self._identities}", change)
        except (GroupCommError, OSError) as error:
            _log.error(
                "identities %s was not rewritten: %s; before the next restart, repair "
                "it: it must list %s as evicted",
                self._identities,
                error,
                names,
            )
        else:
            _log.warning("evicted: %s; %s was rewritten", names, self._identities)

    # ---- missing keys ----

    def check(self, status: Status) -> str | None:
        """Check whether others seal with a key that is missing here, or have evicted this daemon.

        Returns:
            The fault and the remedy, if this daemon was evicted, or was never in a view with others
            and cannot be; None if it can continue.
        """
        keys, view = status.keys, status.view
        if keys.evicted:
            return (
                "this daemon was evicted: the others do not trust its identity any more;"
                f" {_NEW_IDENTITY}"
            )
        if keys.eviction is not None:
            return evicted_text(*keys.eviction)
        self._alone &= view is None or len(view.daemons) == 1
        lacks = keys.missing_key
        if lacks is not None:
            name, number = lacks
            text = (
                f"daemon {name} seals with key {number}, which is not in {self._path}: copy the key"
                f" file of the host of {name}, and bring its keys here with: groupcomm keys add"
                f" {self._path} --from COPY"
            )
            self._warn(number, text)
            return f"{text}; then start this daemon again" if self._alone else None
        if keys.named_key is not None and not self._logged_unknown:
            self._logged_unknown = True  # no advice, and no second line, as anybody can cause it
            _log.warning(
                "datagrams that name a key which is not in %s, such as %d, are dropped; "
                "anybody can send such datagrams",
                self._path,
                keys.named_key,
                extra={"key": keys.named_key},
            )
        return None

    def _warn(self, number: int, text: str) -> None:
        if number not in self._logged and len(self._logged) < 100:
            self._logged.add(number)
            _log.error("%s", text, extra={"key": number})
