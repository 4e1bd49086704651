"""Telemetry: rates, sizes and delays of messages by kind, and alarms."""
