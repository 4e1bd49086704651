"""Contexts: the clusters that a user works with, each by a name, with how to connect to it.

They stand in one file of the user, `$XDG_CONFIG_HOME/groupcomm/contexts.json`, which has paths of
keys and tokens, and none of these itself. A context counts where neither options nor variables say
where to connect: what is meant for one cluster is never shown to another one.
"""

import argparse
import os
from pathlib import Path
from typing import Final

import msgspec

from groupcomm.errors import ConfigError
from groupcomm.host.addresses import user_path
from groupcomm_client.targets import ADDRESS_VARIABLE

CONTEXT_VARIABLE: Final = "GROUPCOMM_CONTEXT"
"""The environment variable that chooses a context for one shell, in place of the one in use."""


class Context(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How to connect to one cluster; the files are absolute paths."""

    address: str
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    token_file: str | None = None


class Contexts(msgspec.Struct, forbid_unknown_fields=True):
    """All contexts of a user.

    Attributes:
        known: the contexts by name.
        used: the name of the one in use; None for none.
    """

    known: dict[str, Context] = {}
    used: str | None = None


def contexts_file() -> Path:
    """Return the path of the user's file.

    Raises:
        ConfigError: the user has no home.
    """
    return user_path(os.environ.get("XDG_CONFIG_HOME") or "~/.config") / "groupcomm/contexts.json"


def read_contexts() -> Contexts:
    """Return the user's contexts; none without a file, or without a home.

    Raises:
        ConfigError: the file cannot be read, or is damaged.
    """
    try:
        path = contexts_file()
    except ConfigError:
        return Contexts()
    try:
        return msgspec.json.decode(path.read_bytes(), type=Contexts)
    except FileNotFoundError:
        return Contexts()
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}; correct it, or remove it") from None


def write_contexts(contexts: Contexts) -> None:
    """Replace the user's file.

    Raises:
        ConfigError: the user has no home.
        OSError: the file cannot be written.
    """
    path = contexts_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(contexts)) + b"\n")
    unfinished.replace(path)


def chosen_name(contexts: Contexts) -> str | None:
    """Return the name of the context that counts; None for none.

    Raises:
        ConfigError: the environment, or the file, names one that is not there.
    """
    named = os.environ.get(CONTEXT_VARIABLE)
    name = named or contexts.used
    if name is not None and name not in contexts.known:
        where = f"${CONTEXT_VARIABLE}" if named else f'"used" of {contexts_file()}'
        raise ConfigError(f"{where} is {name!r}, {missing(contexts)}")
    return name


def missing(contexts: Contexts) -> str:
    """Return the end of a sentence about a context that is not there."""
    names = ", ".join(sorted(contexts.known))
    return f"which is no context; {f'there are {names}' if names else 'there is none'}"


def apply_context(options: argparse.Namespace) -> None:
    """Have options of a connection, if nothing says where to, be those of the user's context.

    Raises:
        ConfigError: the file is damaged, or the environment names a context that is not there.
    """
    given = vars(options)
    if "token_file" not in given or given["address"] or os.environ.get(ADDRESS_VARIABLE):
        return
    contexts = read_contexts()
    name = chosen_name(contexts)
    if name is None:
        return
    context = contexts.known[name]
    options.address = context.address
    for field in ("ca", "certificate", "key", "token_file"):
        path = getattr(context, field)
        if given[field] is None and path is not None:
            setattr(options, field, Path(path))
