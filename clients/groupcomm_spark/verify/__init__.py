"""Proofs over the logs of many receivers; docs/spark.md, Verifying, lists the proved properties."""
