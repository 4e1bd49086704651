"""The `groupcomm` command, and what stands behind its verbs."""
