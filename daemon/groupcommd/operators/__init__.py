"""What operators see and ask for: status, findings, log, keys, drains."""
