"""The specification: state machines of views, order and recovery, and the check that runs of the
real code are among their behaviours. tests/verification/specification explores it."""
