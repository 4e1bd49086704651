"""The sink: rows of a streaming query are sent to groups; docs/spark.md, The sink.

Executors write the rows of a batch to files. The driver decides once and for all which files are
the batch, and publishes them, again after each failure, until all daemons of its view have the
batch.
"""
