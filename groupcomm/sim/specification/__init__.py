"""The specification: state machines of views, order and recovery, checked exhaustively, and the
check that runs of the real code are among their behaviours."""
