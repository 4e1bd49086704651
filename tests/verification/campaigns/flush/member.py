"""A member of one group, with the flush layer: sends all the time, and records its events.

Standard input has orders, one a line: join, leave, quit. The record has a line of JSON for each
event, in the order in which they happened to this program; written lines survive its kill.
"""

import argparse
import json
import os
import select
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

from groupcomm.clocks.stamp import format_position
from groupcomm_client import spread_api as sp
from groupcomm_client.spread_api import flush as fl

GROUP = "group"
PAUSE_S = 0.02
WINDOW = 10
LEVELS = (sp.RELIABLE_MESS, sp.FIFO_MESS, sp.CAUSAL_MESS, sp.AGREED_MESS, sp.SAFE_MESS)


class Member:
    """One session, and its plans."""

    def __init__(self, address: str, user: str, record: Path) -> None:
        self._random = Random(user)
        self._record = record.open("a", buffering=1)
        self._mbox, self.name = fl.FL_connect(address, user)
        self._view = ""  # the view in which this member may send
        self._leaving = False  # asked to leave: views that come before that are for others to use
        self._late = -1  # the number of messages that come before it answers the request to flush
        self._number = self._seen = 0
        self._next = 0.0  # the time of its next message
        self._orders = ""

    def write(self, what: str, **more: Any) -> None:
        """Write something down before anything follows from it."""
        print(json.dumps({"what": what, **more}), file=self._record)

    def run(self) -> None:
        """Run until the order to quit."""
        while True:
            found = fl.FL_receive(self._mbox, 0)
            if found is not None:
                self._on_message(found)
                continue
            if self._view and time.monotonic() >= self._next and self._number - self._seen < WINDOW:
                self._send()
            ready, _, _ = select.select([self._mbox, sys.stdin], [], [], PAUSE_S)
            if sys.stdin in ready and not self._obey():
                return

    def _obey(self) -> bool:
        self._orders += os.read(sys.stdin.fileno(), 4096).decode() or "quit\n"
        *orders, self._orders = self._orders.split("\n")
        for order in orders:
            if order == "join":
                fl.FL_join(self._mbox, GROUP)
            elif order == "leave":
                self._view, self._leaving = "", True  # the member may send nothing after it
                fl.FL_leave(self._mbox, GROUP)
            else:
                fl.FL_disconnect(self._mbox)
                return False
        return True

    def _send(self) -> None:
        self._number += 1
        self._next = time.monotonic() + PAUSE_S
        level = self._random.choice(LEVELS)
        self.write("sent", number=self._number, view=self._view, level=level)
        text = json.dumps({"number": self._number, "view": self._view}).encode()
        fl.FL_multicast(self._mbox, level, GROUP, 0, text)
        if self._late > 0:
            self._late -= 1
        elif self._late == 0:
            self._flush()

    def _flush(self) -> None:
        self._view, self._late = "", -1
        fl.FL_flush(self._mbox, GROUP)

    def _on_message(self, found: sp.Received_message) -> None:
        kind = found.service_type
        if fl.Is_flush_req_mess(kind):
            self._late = self._random.randint(0, 2)
            if not self._view or not self._late:
                self._flush()
        elif sp.Is_regular_mess(kind):
            message = json.loads(found.message)
            self.write("got", sender=found.sender, level=kind & sp.REGULAR_MESS, **message)
            if found.sender == self.name:
                self._seen = message["number"]
        elif sp.Is_self_leave(kind):
            self.write("left")
            self._view, self._late, self._leaving = "", -1, False
        elif sp.Is_reg_memb_mess(kind):
            self._begin(found)

    def _begin(self, found: sp.Received_message) -> None:
        info = sp.SP_get_memb_info(found)
        place = info.gid.position
        view = format_position(place)
        self._view = "" if self._leaving else view
        self._seen = self._number
        together = sp.SP_get_vs_set_members(found, info.my_vs_set_index)
        self.write("view", view=view, members=found.groups, together=together)


def main() -> None:
    """Read the command line, and go."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("user")
    parser.add_argument("record", type=Path)
    options = parser.parse_args()
    try:
        Member(options.address, options.user, options.record).run()
    except sp.SpreadError as error:
        if error.code != sp.CONNECTION_CLOSED:
            raise  # its daemon runs, so this is an error of the member


if __name__ == "__main__":
    main()
