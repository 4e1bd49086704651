"""From logs to a model of the channel between programs (`groupcomm_log.channel`)."""
