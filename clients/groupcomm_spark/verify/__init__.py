"""Proofs over the logs of many receivers; docs/spark.md, Verifying, says what is proved."""
