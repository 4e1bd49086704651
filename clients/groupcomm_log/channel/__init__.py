"""The network between programs as a channel: delay, loss, order and correlation, by level.

A model is fitted to logs on Spark (`groupcomm spark channel`), is a file of JSON, and is sampled
without Spark: this package needs the standard library only. docs/control.md shows its use.
"""

from groupcomm_log.channel.model import Channel, ChannelModel, Link, Sharing

__all__ = ["Channel", "ChannelModel", "Link", "Sharing"]
