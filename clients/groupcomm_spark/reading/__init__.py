"""Logs as the format "groupcomm": options, plan, rows, and the two readers that Spark uses."""
