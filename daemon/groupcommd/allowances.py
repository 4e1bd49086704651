"""Allowances: what the principals of a daemon's programs have used of their quotas."""

from typing import Final

import trio

from groupcomm.security.quotas import Account, Quotas

LEAST_WAIT_S: Final = 0.001
"""Less may be nothing to a clock, however often it is waited for."""


class Allowances:
    """The accounts of all principals that have a connection, or had one lately.

    Attributes:
        quotas: of each principal; `renew` replaces them.
        waits: how often a program was not read because its principal was in debt.
    """

    def __init__(self, quotas: Quotas) -> None:
        self.quotas = quotas
        self.waits = 0
        self._accounts: dict[str, Account] = {}

    @property
    def metered(self) -> bool:
        """Whether anything is charged."""
        return self.quotas.limit_rates

    def renew(self, quotas: Quotas) -> None:
        """Other quotas hold from now on; all debts are forgotten."""
        self.quotas = quotas
        for account in self._accounts.values():
            account.limit(quotas, trio.current_time())

    def open(self, principal: str) -> bool:
        """One more connection; whether there may be."""
        account = self._accounts.get(principal)
        if account is None:
            account = self._accounts[principal] = Account(self.quotas, trio.current_time())
        most = self.quotas.connections
        if most is not None and account.connections >= most:
            return False
        account.connections += 1
        return True

    def close(self, principal: str) -> None:
        """One connection less. The account stays while it has debts: to connect anew pays none."""
        self._accounts[principal].connections -= 1
        now = trio.current_time()
        for name in [name for name, a in self._accounts.items() if a.is_idle(now)]:
            del self._accounts[name]

    def charge(self, principal: str, *, messages: int, size: int, joins: int) -> None:
        """Take what a connection has sent."""
        now = trio.current_time()
        self._accounts[principal].charge(now, messages=messages, size=size, joins=joins)

    async def wait(self, principal: str) -> None:
        """Wait until a principal has no debts: until then none of its connections is read."""
        account = self._accounts[principal]
        wait_s = account.debt_s(trio.current_time())
        self.waits += wait_s > 0
        while wait_s > 0:
            await trio.sleep(max(wait_s, LEAST_WAIT_S))
            wait_s = account.debt_s(trio.current_time())

    def connections(self) -> dict[str, int]:
        """How many each principal has."""
        return {name: account.connections for name, account in self._accounts.items()}
