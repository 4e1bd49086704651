"""Recorded traffic as columns: Parquet files that Spark, pandas, DuckDB and others read."""
