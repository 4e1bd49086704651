"""Reading logs through the format "groupcomm": options, plan, rows, and Spark's two readers."""
