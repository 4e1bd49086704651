"""A cluster of one daemon or several, and daemons outside that ask over a bad network."""

from collections.abc import Callable
from random import Random

from groupcomm.config.roster import (
    Invitation,
    InviteDaemon,
    Roster,
    RosterEntry,
)
from groupcomm.errors import ConfigError
from groupcomm.joining.admission import admission_of, decide_join, decide_move
from groupcomm.joining.asker import Asker, Credential, State
from groupcomm.joining.handshake import public_of
from groupcomm.joining.host import Applicant, JoinHost
from groupcomm.joining.messages import (
    Answer,
    JoinRequest,
    MoveRequest,
    Package,
    Refused,
    Request,
    Wait,
    encode_package,
)
from groupcomm.joining.token import Token, cluster_private, member_private
from groupcomm.names import cluster_number, daemon_number
from groupcomm.security.keys import KeyRing
from groupcomm.wire.joining import Open, Role

CLUSTER = "plant"
KEY = bytes(range(32))
FIRST = Roster(entries=(RosterEntry(name="a", site="main", addresses=("10.0.0.1:4803",)),))
WALL_S = 1_000_000.0


class Host:
    """The daemons of the cluster: they share a roster, which changes at once."""

    def __init__(self, roster: Roster = FIRST, seed: int = 0) -> None:
        self.roster, self.wall_s = roster, WALL_S
        self.entropy = Random(seed).randbytes
        self.machines: dict[str, JoinHost] = {}
        self.delay = 0  # requests that wait before one is granted
        for name in roster.names:
            self.start(name)

    def start(self, name: str) -> None:
        self.machines[name] = JoinHost(cluster_number(CLUSTER), self, self.entropy, 0.0)

    def invite(self, name: str, valid_s: int = 60) -> Token:
        token = Token(
            cluster=CLUSTER,
            name=name,
            key_id=1,
            id=self.entropy(8),
            secret=self.entropy(16),
            public=public_of(cluster_private(KEY, CLUSTER)),
        )
        invitation = Invitation(
            id=token.id,
            name=name,
            site="main",
            proof=public_of(token.private),
            expires_s=int(self.wall_s) + valid_s,
        )
        change = InviteDaemon(invitation=invitation, now_s=int(self.wall_s))
        self.roster = self.roster.changed(change)
        return token

    # ---- the context of machines ----

    def cluster_private(self, key_id: int) -> bytes | None:
        return cluster_private(KEY, CLUSTER) if key_id == 1 else None

    def public_of(self, request: Open) -> bytes | None:
        if request.role is Role.TOKEN:
            found = self.roster.invitation(request.credential)
            return None if found is None else found.proof
        for name in self.roster.names:
            if daemon_number(name).to_bytes(8, "big") == request.credential:
                return public_of(member_private(KEY, CLUSTER, name))
        return None

    def decide(self, applicant: Applicant, request: JoinRequest | MoveRequest) -> Answer | bytes:
        if self.delay:
            self.delay -= 1
            return Wait("soon")
        if isinstance(request, MoveRequest):
            change = decide_move(self.roster, request.name, request.addresses)
            if isinstance(change, Refused):
                return change
            if change is not None:
                self.roster = self.roster.changed(change)
            return b""
        found = decide_join(
            self.roster, applicant.credential, applicant.public, request.name, self.wall_s
        )
        if isinstance(found, Refused):
            return found
        if found is not None:
            try:
                change_of = admission_of(found, applicant.public, request.addresses)
                self.roster = self.roster.changed(change_of)
            except ConfigError as error:
                return Refused(str(error))
        return self.package()

    def package(self) -> bytes:
        return encode_package(
            Package(
                cluster=CLUSTER,
                roster=self.roster,
                timing={"token_timeout_s": 0.6},
                packet_bytes=1340,
                suite=1,
                keys=KeyRing({1: KEY}, 1),
            )
        )


def joiner(
    token: Token,
    *,
    name: str | None = None,
    private: bytes = bytes(31) + b"j",
    seed: int = 1,
    targets: str = "a",
) -> Asker[str]:
    """A daemon that asks with a token."""
    wanted = JoinRequest(name or token.name, ("10.0.0.9:4803",))
    return asker(_credential(token), private, lambda *_: wanted, seed, targets)


def _credential(token: Token) -> Credential:
    return Credential(
        role=Role.TOKEN,
        id=token.id,
        cluster=cluster_number(token.cluster),
        key_id=token.key_id,
        private=token.private,
        public=token.public,
    )


def mover(name: str, address: str, key: bytes = KEY, seed: int = 1) -> Asker[str]:
    """A daemon of the roster that has moved."""
    credential = Credential(
        role=Role.MEMBER,
        id=daemon_number(name).to_bytes(8, "big"),
        cluster=cluster_number(CLUSTER),
        key_id=1,
        private=member_private(key, CLUSTER, name),
        public=public_of(cluster_private(key, CLUSTER)),
    )
    return asker(credential, bytes(31) + b"m", lambda *_: MoveRequest(name, (address,)), seed, "a")


def asker(
    credential: Credential,
    private: bytes,
    request: Callable[[str, bytes], Request],
    seed: int,
    targets: str,
) -> Asker[str]:
    made: Asker[str] = Asker(credential, private, request, Random(seed).randbytes)
    made.targets = tuple(targets)
    return made


class Network:
    """Carries datagrams between one asker and the hosts; loses, doubles and delays them.

    Attributes:
        sent: all datagrams of the asker, with their targets.
        answers: all answers.
    """

    def __init__(self, host: Host, *, loss: float = 0.0, doubled: float = 0.0, seed: int = 0):
        self.host, self._random = host, Random(seed)
        self._loss, self._doubled = loss, doubled
        self.sent: list[tuple[str, bytes]] = []
        self.answers: list[bytes] = []
        self.now = 0.0

    def run(self, *askers: Asker[str], until_s: float = 60.0) -> None:
        """Run until all have their result, or until a time."""
        while self.now < until_s and any(each.state is not State.OVER for each in askers):
            for each in askers:
                for target, data in each.step(self.now):
                    self.sent.append((target, data))
                    for answer in self._pass(target, data):
                        each.receive(target, answer, self.now)
            self.now += 0.05

    def _pass(self, target: str, data: bytes) -> list[bytes]:
        copies = [data] * (1 + (self._random.random() < self._doubled))
        found: list[bytes] = []
        for copy in copies:
            if self._random.random() < self._loss or target not in self.host.machines:
                continue
            answer = self.host.machines[target].answer(copy, self.now)
            if answer is not None:
                assert len(answer) <= len(copy), "nobody is an amplifier"
                self.answers.append(answer)
                if self._random.random() >= self._loss:
                    found += [answer] * (1 + (self._random.random() < self._doubled))
        return found
