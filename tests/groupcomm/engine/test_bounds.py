"""Bounds of groups that hold though nobody has set any, and refusals that name them."""

import attrs
import pytest

from groupcomm.engine import ClientBytes, ProgramSettings
from groupcomm.engine.access_control import MEMBER_HEAD_BYTES
from groupcomm.events import GroupView, Refused
from groupcomm.security.quotas import Bound, Quotas
from groupcomm.session.daemon_frames import decode_refused_untrusted, encode_refused
from groupcomm.session.frames import Capability, FrameKind, FrameReader, encode_hello
from tests.groupcomm.engine.clients import PLENTY, Clients


def clients_with(**quotas: int) -> Clients:
    clients = Clients()
    clients.step(ProgramSettings(quotas=Quotas(**quotas)))
    return clients


def join(clients: Clients, number: int, group: str) -> str:
    """Return the bound at which the join was refused; "" if the session is a member now."""
    clients.sessions[number].join(group)
    (event,) = [e for e in clients.talk(number) if isinstance(e, GroupView | Refused)]
    return event.bound if isinstance(event, Refused) else ""


def test_every_bound_holds_without_being_set() -> None:
    quotas = attrs.asdict(Quotas())
    assert all(quotas[bound.key] for bound in Bound if bound not in (Bound.NONE, Bound.QUORUM))


def test_a_session_is_in_so_many_groups_and_another_one_may_join_more() -> None:
    clients = clients_with(session_groups=2)
    one, other = (clients.connect(user, principal="cert:x") for user in ("one", "other"))
    assert [join(clients, one, group) for group in "abc"] == ["", "", "session_groups"]
    assert join(clients, other, "c") == ""
    clients.sessions[one].leave("a")
    clients.talk(one)
    assert join(clients, one, "c") == ""
    assert clients.core.status(0.0).access.bounds == {"session_groups": 1}


def test_joins_that_are_under_way_count_for_a_session() -> None:
    clients = clients_with(session_groups=2)
    one = clients.connect("one")
    for group in "abc":
        clients.sessions[one].join(group)
    assert [e.bound for e in clients.talk(one) if isinstance(e, Refused)] == ["session_groups"]


def test_a_cluster_has_so_many_groups_and_all_may_join_those() -> None:
    clients = clients_with(cluster_groups=2)
    one, other = clients.connect("one"), clients.connect("other")
    assert [join(clients, one, group) for group in "abc"] == ["", "", "cluster_groups"]
    assert join(clients, other, "a") == ""
    clients.sessions[one].leave("b")
    clients.talk(one)
    assert join(clients, other, "c") == ""


def test_the_names_of_the_members_of_a_group_have_so_many_bytes() -> None:
    each = MEMBER_HEAD_BYTES + len("#one#a")
    clients = clients_with(view_bytes=2 * each)
    one, two, three = (clients.connect(user) for user in ("one", "two", "six"))
    assert [join(clients, number, "g") for number in (one, two, three)] == ["", "", "view_bytes"]
    assert join(clients, three, "h") == ""


@pytest.mark.parametrize("bound", Bound)
def test_a_refusal_names_its_bound_to_those_who_understand_it(bound: Bound) -> None:
    refused = Refused(number=1, count=1, verb="join", group="g", principal="p", bound=bound.key)
    assert decode_refused_untrusted(encode_refused(refused)[4:]) == refused
    of_quotas = bound not in (Bound.NONE, Bound.QUORUM)
    assert (f"clients.quotas.{bound.key}" in str(refused)) == of_quotas
    older = decode_refused_untrusted(encode_refused(refused, bounds=False)[4:])
    assert older.bound == ("groups" if bound else "")


def test_a_client_that_knows_one_bound_is_told_that_one() -> None:
    clients = clients_with(session_groups=1)
    old = clients.start("old")
    clients.sessions[old].pop_output(PLENTY)
    clients.step(ClientBytes(old, encode_hello("old", Capability.REFUSALS)))
    clients.heard(old)
    for group in "ab":
        clients.sessions[old].join(group)
    clients.step(clients.said(old))
    output = b"".join(clients.core.pop_output(old, PLENTY))
    frames = FrameReader(1 << 20).feed(output)
    refused = [frame for frame in frames if frame[0] == FrameKind.REFUSED]
    assert [decode_refused_untrusted(frame).bound for frame in refused] == ["groups"]
