"""The log of a recorder: delivered messages and views, in order, as columns.

One folder holds one log. Sealed rows are in Parquet files, the newest rows in a live file. The
package needs pyarrow and nothing else, so that workers of other systems can import it; see
docs/recorder.md.
"""
