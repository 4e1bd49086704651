"""Rules on a real daemon: programs of all kinds are told what they may not do, and go on."""

import json
import os
import signal
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import groupcommd.cli
from groupcomm.errors import AccessRefused, ConfigError
from groupcomm.events import Cause, GroupView, Message, Refused
from groupcomm_client.blocking import connect
from groupcomm_client.program import FAILED
from groupcomm_client.spread_api import (
    AGREED_MESS,
    CAUSED_BY_JOIN,
    REJECT_MESS,
    Is_reject_mess,
    SP_connect,
    SP_disconnect,
    SP_join,
    SP_multicast,
    SP_receive,
)
from groupcomm_tools import cli
from groupcomm_tools.running_cluster import RunningCluster
from groupcommd.config.config_file import read_config
from groupcommd.programs.local_users import NAMES_KEPT_S, unix_principal
from tests.groupcomm_client.kinds import KINDS, PATIENCE_S, Kind, next_of, played
from tests.groupcomm_tools.shell import NO_PAUSES

ME = unix_principal(os.geteuid())

RULES = f"""
access = [
    {{who = "unix:*", groups = "open.*", may = ["join", "send", "see-members"]}},
    {{who = "{ME}", groups = ["#*"], may = ["unicast", "admin"], names = ["ann", "bob"]}},
]
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster(1, settings=RULES + NO_PAUSES) as running:
        yield running


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("reconnect", [False, True])
@played
async def test_what_is_refused_is_reported_and_the_session_goes_on(
    kind: Kind, reconnect: bool, cluster: RunningCluster
) -> None:
    async with kind.connect(cluster.address("a"), "ann", reconnect=reconnect) as ann:
        with pytest.raises(AccessRefused, match=f"{ME} may not join 'secret'") as caught:
            await ann.join("secret")
        told = caught.value
        assert (told.verb, told.group, told.principal, told.code) == ("join", "secret", ME, -14)
        assert (await next_of(kind, ann, Refused)).verb == "join"
        await ann.join("open.g")
        with pytest.raises(AccessRefused, match="may not send 'secret'"):
            await ann.multicast_ordered(["open.g", "secret"], b"no")
        await ann.multicast(["open.g", "secret"], b"no")
        await ann.multicast("open.g", b"yes")
        refused = [await next_of(kind, ann, Refused) for _ in range(2)]
        assert [(each.verb, each.group) for each in refused] == [("send", "secret")] * 2
        assert (await next_of(kind, ann, Message)).data == b"yes"
        await ann.multicast(ann.name, b"private")
        assert (await next_of(kind, ann, Message)).data == b"private"
        with pytest.raises(AccessRefused):
            await ann.join("secret")


def test_spread_programs_get_back_what_is_refused(cluster: RunningCluster) -> None:
    mbox, private = SP_connect(cluster.address("a"), "ann")
    SP_join(mbox, "secret")
    SP_multicast(mbox, AGREED_MESS, "secret", 7, b"hello")
    for asked in (CAUSED_BY_JOIN, AGREED_MESS):
        found = SP_receive(mbox, PATIENCE_S)
        assert found is not None
        assert found.service_type == asked | REJECT_MESS
        assert Is_reject_mess(found.service_type)
        assert (found.sender, found.groups) == (private, ("secret",))
        assert b"no rule of the daemon allows it" in found.message
    SP_disconnect(mbox)


def test_commands_say_what_is_refused(
    cluster: RunningCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--address", cluster.address("a"))
    assert cli.main(["members", "secret", *where]) == FAILED
    assert "group secret has no member" in capsys.readouterr().err, "who may admin sees all"
    assert cli.main(["sub", "secret", "--duration-s", "0.1", *where]) == FAILED
    assert "may not join 'secret'" in capsys.readouterr().err
    lines = cluster.config.parent / "lines"
    lines.write_text("one\n")
    assert cli.main(["pub", "secret", str(lines), *where]) == FAILED
    assert "may not send 'secret'" in capsys.readouterr().err


def test_a_reload_changes_what_holds(cluster: RunningCluster) -> None:
    address, file = cluster.address("a"), cluster.config
    before = file.read_text()
    with connect(address, user="ann") as ann, connect(address, user="bob") as bob:
        for each in (ann, bob):
            each.join("open.g")
        reloads = _reload(cluster, before.replace("open.*", "closed.*"))
        told, view = _next(ann, Refused), _next(ann, GroupView, own=True, cause=Cause.LEAVE)
        assert (told.number, told.group, view.members) == (0, "open.g", ())
        assert ann.groups == {}
        with pytest.raises(AccessRefused):
            ann.join("open.g")
        ann.join("closed.g")
        status = ann.ask("status")
        assert status["reloads"] == reloads
        assert (status["access"]["rules"], status["access"]["refused"]["join"] >= 3) == (2, True)
        _reload(cluster, before.replace('"admin"]', '"join"], may_not = "admin"'))
        for question in ("status", "configuration", "groups"):
            with pytest.raises(AccessRefused, match=f"{ME} may not ask for '{question}'"):
                ann.ask(question)
        with pytest.raises(AccessRefused, match="see-members"):
            ann.ask("members secret")
        ann.join("open.g")
        assert ann.ask("members open.g")["principals"] == {"#ann#a": ME}
    _reload(cluster, before)
    said = "was removed from 'open.g', as the rules"
    _until(lambda: any(said in line["text"] for line in cluster.log("a")))


def test_who_runs_a_daemon_may_ask_for_its_state_until_a_rule_takes_that_away(
    cluster: RunningCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    where, before = ("--address", cluster.address("a")), cluster.config.read_text()

    def governed_by(rules: str) -> None:
        _reload(cluster, before.replace(RULES, f"access = [{rules}]\n"))

    try:
        governed_by('{who = "token:*", may = ["join", "send"]}')
        for words in ("status", "groups", "top --count 1 --json"):
            assert cli.main([*words.split(), *where]) == 0, words
        assert cli.main(["members", "secret", *where]) == FAILED
        assert "group secret has no member" in capsys.readouterr().err
        governed_by('{who = "token:*", may = "join"}, {who = "unix:*", may_not = "admin"}')
        for words in ("status", "groups", "members secret"):
            assert cli.main([*words.split(), *where]) == FAILED, words
            assert f"{ME} may not ask for" in capsys.readouterr().err
    finally:
        _reload(cluster, before)


def test_a_file_with_a_wrong_rule_changes_nothing(cluster: RunningCluster) -> None:
    before = cluster.config.read_text()
    cluster.config.write_text(before.replace('"send"', '"sent"'))
    os.kill(cluster.pid("a"), signal.SIGHUP)
    _until(lambda: any("may has 'sent'" in line["text"] for line in cluster.log("a")))
    cluster.config.write_text(before)
    with connect(cluster.address("a")) as ann:
        ann.join("open.g")


def test_rules_are_reported_as_they_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "d.toml"
    path.write_text('name = "d"\naccess = [{who = "cert:*", may = ["send", "join"]}]\n')
    assert groupcommd.cli.main(["--config", str(path), "--check"]) == 0
    told = json.loads(capsys.readouterr().out)["access"]
    rule = {"who": ["cert:*"], "groups": ["*"], "verbs": ["join", "send"], "names": [], "taken": []}
    assert told == {"rules": [rule]}


def test_a_check_says_what_rules_make_impossible(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "d.toml"
    for rules, said in (
        ('{who = "unix:*", may = ["send", "join", "unicast"]}', ""),
        ('{who = "*", groups = "lab.*", may = "send"}', "nobody may join 'lab.*'"),
        ('{who = ["cert:*"], may = "join"}', "they come in as 'unix:*' or 'uid:*'"),
        ('{who = "unix:*", may_not = "admin"}', "nobody may admin"),
    ):
        path.write_text(f'name = "d"\naccess = [{rules}]\n')
        assert groupcommd.cli.main(["--config", str(path), "--check"]) == 0
        found = capsys.readouterr()
        assert json.loads(found.out)["name"] == "d"
        assert said in found.err
        opens = [line for line in found.err.splitlines() if "may read the history of" in line]
        assert bool(opens) == ("join" in rules), "join opens the past as well"
        assert bool(said) == (len(found.err.splitlines()) > len(opens))


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ('who = "*", may = "fly"', "access, rule 1: may has 'fly'; there are: join, send"),
        ('who = [], may = "join"', "access, rule 1: access: who is empty"),
        ('who = "", may = "join"', "a pattern is empty"),
        ('may = "join"', "who"),
        ('who = 5, may = "join"', "must be a text, or a list of texts"),
        ('who = "*", may = "join", group = "g"', "group"),
        ('who = "*"', "access, rule 1: access: may is empty"),
        ('who = "*", may_not = "fly"', "access, rule 1: may_not has 'fly'; there are: join"),
        ('who = "*", may_not = "join"', "only 'admin' can be taken away"),
    ],
)
def test_a_wrong_rule_is_named(tmp_path: Path, rule: str, said: str) -> None:
    path = tmp_path / "d.toml"
    path.write_text(f'name = "d"\naccess = [{{{rule}}}]\n')
    with pytest.raises(ConfigError) as caught:
        read_config(path, name=None, state_dir=tmp_path)
    assert said in str(caught.value)


def _next(connection: Any, wanted: type, **fields: object) -> Any:
    while True:
        event = connection.receive(PATIENCE_S)
        if isinstance(event, wanted) and all(getattr(event, n) == v for n, v in fields.items()):
            return event


def _reload(cluster: RunningCluster, text: str) -> int:
    """Let the daemon read another file; return the number of its reloads."""
    read = sum("configuration read again" in line["text"] for line in cluster.log("a"))
    cluster.config.write_text(text)
    os.kill(cluster.pid("a"), signal.SIGHUP)
    _until(
        lambda: sum("configuration read again" in line["text"] for line in cluster.log("a")) > read
    )
    return read + 1


def _until(holds: Any) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_user_named_like_a_number_is_not_the_user_with_that_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Names are looked up again, too: the system may have given one to somebody else."""
    names = {4001: "1001"}
    monkeypatch.setattr(
        "groupcommd.programs.local_users.pwd.getpwuid",
        lambda uid: types.SimpleNamespace(pw_name=names[uid]),
    )
    now = 1e6
    monkeypatch.setattr("groupcommd.programs.local_users.time.monotonic", lambda: now)
    assert (unix_principal(4001), unix_principal(1001)) == ("unix:1001", "uid:1001")
    names[4001] = "ann"
    now += NAMES_KEPT_S
    assert unix_principal(4001) == "unix:ann"
