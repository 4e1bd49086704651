"""Mutations that no check can notice, as they change nothing that anybody promises.

Each is named by `Mutation.key`: module, function, operator, and changed text.
"""

from typing import Final

EQUIVALENT: Final[dict[str, str]] = {
    "groupcomm/engine/delivery.py Delivery.__init__: constant: False  ->  True in"
    " self.moved = False": "it is not read before the announcements have come in packets",
    "groupcomm/engine/delivery.py OrderedWaits.pop_rest: constant: 2  ->  3 in waits ="
    " sorted(self._agreed + self._safe, key=lambda wait: wait[:2])": (
        "no two bundles have the same time and place"
    ),
    "groupcomm/engine/protection.py IdentityProtection._notify_evicted: and, or: public is None or"
    " public not in self._roll.evicted  ->  public is None and public not in self._roll.evicted": (
        "it is called for senders that are not trusted: their key is unknown or evicted"
    ),
    "groupcomm/engine/protection.py IdentityProtection._on_hello: constant: False  ->  True in"
    " reply = HelloReply(trust=False, say=None) if known else self._reply_to(opened, told.hello)": (
        "a known sender is proven, and that is asked first"
    ),
    "groupcomm/engine/roster.py RosterManager.begin_view: assignment dropped: self._chosen ="
    " None": "the end of the view before has set it",
    "groupcomm/engine/session_output.py CausesFrames.__init__: assignment dropped: self._frame ="
    " b''": "the first packet is another one than none, and has it made",
    "groupcomm/engine/session_output.py CausesFrames.__init__: assignment dropped: self._full ="
    " False": "the first packet is another one than none, and sets it",
    "groupcomm/engine/session_output.py CausesFrames.__init__: constant: False  ->  True in"
    " self._full = False": "the first packet is another one than none, and sets it",
    "groupcomm/engine/view.py ViewState.__init__: assignment dropped: self._sender = me": (
        "each packet sets it before it is read"
    ),
    "groupcomm/engine/view.py ViewState._note_use: comparison: packet.time > notices.foreign_time"
    "  ->  packet.time >= notices.foreign_time": "setting a time to what it is changes nothing",
    "groupcomm/engine/view_change.py ViewChange.missing: constant: 0  ->  1 in return"
    " [without(recovered_set.spans[stream.ring], [(0, stream.forgotten), *_spans(stream)]) for"
    " stream in self._delivery.streams]": "no packet has the number 0",
    "groupcomm/engine/view_change.py ViewChange.prepare: comparison: len(kept) <"
    " len(packet.bundles)  ->  len(kept) <= len(packet.bundles)": (
        "where nothing is dropped, nothing is dropped wrongly"
    ),
    "groupcomm/membership/gather.py Gather.__init__: assignment dropped: self.due = now": (
        "the first search for a proposal sets it before it is read"
    ),
    "groupcomm/membership/membership.py Membership._on_beacon: assignment dropped: self.deadline ="
    " min(self.deadline, self._operational.deadline)": (
        "the next beacon is due before a silence that begins now is too long"
    ),
    "groupcomm/membership/membership.py Membership._on_beacon: min, max, any, all:"
    " min(self.deadline, self._operational.deadline)  ->  max(self.deadline,"
    " self._operational.deadline)": (
        "the later one is that of the operational phase, and the step that follows takes the least"
        " with the other one; a deadline that a beacon brings forward is behind the next beacon"
    ),
    "groupcomm/membership/operational.py OperationalPhase.on_beacon: min, max, any, all:"
    " min(self.deadline, self._detector.silence_due)  ->  max(self.deadline,"
    " self._detector.silence_due)": (
        "the next beacon is due before a silence that begins now is too long"
    ),
    "groupcomm/membership/peer.py PeerDaemon.restart: constant: 1  ->  2 in self.left_sequence,"
    " self.left_reported_at = (-1, -inf)": "both are below all sequences",
    "groupcomm/membership/trust.py LeftOutDaemon.__init__: constant: 0.0  ->  1.0 in self.lasts_s ="
    " 0.0": "the first time that it is left out sets it",
    "groupcomm/order/admission.py Admission._check_adjacent_stamps: constant: 1  ->  2 in after ="
    " packets[early[place]].time if place < len(early) else time + 1": (
        "without a packet behind it any limit above the stamp is the same"
    ),
    "groupcomm/order/horizons.py Blocks.__init__: constant: 0  ->  1 in"
    " self._last: list[tuple[int, int]] = [(0, 0)] * rings": (
        "the place of a notice is not read as long as its value is 0"
    ),
    "groupcomm/order/horizons.py Blocks._raise: comparison: value > before  ->  value >= before": (
        "setting a block to what it is changes nothing"
    ),
    "groupcomm/order/order.py Order.accept: comparison: packet.number > held_before  -> "
    " packet.number >= held_before": "a packet that is held already is not accepted",
    "groupcomm/order/order.py Order._has_causes: and, or: packet.vector is None or packet.agreed is"
    " None  ->  packet.vector is None and packet.agreed is None": "a packet has both or none",
    "groupcomm/order/order.py Order._release: comparison: packet.number >"
    " self._highest[packet.ring]  ->  packet.number >= self._highest[packet.ring]": (
        "setting a number to what it is changes nothing"
    ),
    "groupcomm/ring/ring.py Ring._handle_token: comparison: budget > 0  ->  budget >= 0": (
        "without a budget nothing is numbered"
    ),
    "groupcomm/ring/ring.py Ring._watch: comparison: noted < own  ->  noted <= own": (
        "no SAFE packet is stamped after a time and up to the same time"
    ),
    "groupcomm/ring/token_monitor.py TokenMonitor.__init__: assignment dropped:"
    " self._copy = b''": "it is not read before a token is passed",
    "groupcomm/ring/token_monitor.py TokenMonitor.__init__: assignment dropped:"
    " self._copy_to = me": "it is not read before a token is passed",
    "groupcomm/ring/token_monitor.py TokenMonitor.__init__: assignment dropped:"
    " self.deadline = inf": "each step sets it before it is read",
    "groupcomm/session/inbox.py Inbox.__init__: constant: False  ->  True in self.sealed = False": (
        "the first frame of a daemon is no message, and resets it"
    ),
}
"""The reason why nothing changes that anybody could see."""

COSTS_ONLY: Final[dict[str, str]] = {
    "groupcomm/engine/sessions.py LocalSessions._submit: comparison: bundle.kind > _FRAGMENT  -> "
    " bundle.kind >= _FRAGMENT": "without rules fragments are looked up, and allowed",
    "groupcomm/membership/control_receiver.py ControlReceiver.on_datagram: comparison:"
    " peer.heard_at < self.gather_began_at  ->  peer.heard_at <= self.gather_began_at": (
        "the findings are computed once more for a daemon heard in the step that began to gather"
    ),
    "groupcomm/ring/flow_control.py RemoteRingWindow.on_held: comparison: rates[-1][1] <= rate  -> "
    " rates[-1][1] < rate": "equal rates are kept twice, and the first of them counts",
    "groupcomm/ring/lingering.py Holdings.on_report: comparison: frontier >"
    " self._frontiers[daemon]  ->  frontier >= self._frontiers[daemon]": (
        "the frontier of the ring is computed once more for a report that says nothing new"
    ),
    "groupcomm/membership/membership.py Membership._step_commit: statement dropped:"
    " self._step_gather(now)": (
        "the next step does it, which is due by the deadline of the attempt that is over: at once"
        " where that came to a standstill, else within its wait"
    ),
    "groupcomm/ring/ring.py Ring._collect_holdings: assignment dropped: self._noted_frontier ="
    " max(self._noted_frontier, least)": (
        "the token may be asked for once more, for packets that can be delivered already"
    ),
    "groupcomm/ring/ring.py Ring._note_rest: assignment dropped: self._noted_frontier ="
    " self._blocks.least": (
        "the token may be asked for once more, for SAFE packets that wait for other daemons"
    ),
    "groupcomm/membership/membership.py Membership.gather: constant: 256  ->  257 in"
    " jitter = (self._me >> self._own_join.attempt % 48 & 255) / 256": (
        "a fraction that spreads repeats over time is smaller by 0.4 %"
    ),
    "groupcomm/ring/ring.py Ring._handle_token: constant: 0  ->  1 in packets ="
    " self._number(token, budget, now, far=far) if budget > 0 else []": (
        "a budget of one byte is used in the next round"
    ),
    "groupcomm/order/order.py Order._open_gates: statement dropped:"
    " del self._gated[chain.daemon]": ("each packet looks at gates that are empty"),
}
"""What it costs: the results are the same, but they take more time, memory or packets."""
