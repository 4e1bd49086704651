"""Spread's interface: SP_connect, SP_multicast, SP_receive, over a blocking connection.

docs/spread-api.md lists the differences.
"""

from groupcomm_client.spread_api.constants import *  # noqa: F403 - all of Spread's names
from groupcomm_client.spread_api.event_loop import *  # noqa: F403
from groupcomm_client.spread_api.functions import *  # noqa: F403
from groupcomm_client.spread_api.mailbox import Received_message as Received_message
from groupcomm_client.spread_api.mailbox import group_id as group_id
from groupcomm_client.spread_api.mailbox import membership_info as membership_info
