"""Bytes that may be a part of others: cut out of a packet or a frame without being copied."""

from typing import TypeAlias

Raw: TypeAlias = bytes | memoryview
