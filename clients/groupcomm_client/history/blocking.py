"""Subscriptions and kept messages for programs that use threads."""

from groupcomm_client.history.given import Given
from groupcomm_client.history.keeping import KeptSender
from groupcomm_client.history.subscription import Subscription
from groupcomm_client.waiting import Events, Waiting, shows, waits


class BlockingKeptSender(Waiting[KeptSender]):
    """Sends messages that archives keep; made by `BlockingConnection.keeping`; threads may share
    it."""

    multicast = waits(KeptSender.multicast)


class BlockingSubscription(Events[Subscription, Given]):
    """Events of groups, from any position on; made by `BlockingConnection.subscribe`."""

    position = shows(Subscription.position)
    is_live = shows(Subscription.is_live)
    waits_for_archive = shows(Subscription.waits_for_archive)
    misses_archive = shows(Subscription.misses_archive)
    acknowledged = shows(Subscription.acknowledged)
    acknowledge = waits(Subscription.acknowledge)
    receive = waits(Subscription.receive)
    receive_batch = waits(Subscription.receive_batch)
