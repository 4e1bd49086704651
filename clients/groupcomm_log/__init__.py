"""The log that a recorder writes: what was delivered, in its order, as columns.

One folder holds one log. Sealed rows are in Parquet files, the newest ones in a live file. Needs
pyarrow and nothing else, so that workers of other systems can import it; see docs/recorder.md.
"""
