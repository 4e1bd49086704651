"""Logs on Spark: a data source and sink, and jobs that verify and report.

Nothing here imports pyspark before it is needed: commands must answer without it.
"""
