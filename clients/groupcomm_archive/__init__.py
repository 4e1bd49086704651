"""Archives: programs that record groups, and give subscribers their history.

It needs ``groupcomm[log]``.
"""
