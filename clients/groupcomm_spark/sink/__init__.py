"""The sink: rows of a streaming query into groups; docs/spark.md, The sink.

Executors write the rows of a batch to files. The driver decides once and for all which files are
the batch, and publishes these, after each failure anew, until all daemons of its view have it.
"""
