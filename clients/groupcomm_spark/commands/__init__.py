"""The verbs of `groupcomm spark`, one module each."""
