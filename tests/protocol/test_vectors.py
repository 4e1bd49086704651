"""The test vectors of docs/protocol are what the code reads and writes, byte by byte."""

import hashlib
import json
from typing import Any, Final

import pytest

from tests.protocol import conversations, datagram_vectors
from tests.protocol.families import Family, plain
from tests.protocol.vectors import FAMILIES, FOLDER, contents, text_of

REMEDY: Final = (
    "the wire differs from the test vectors. If that was not meant, the code is wrong: daemons and"
    " programs of earlier releases would not understand it. If it was, docs/compatibility.md says"
    " which releases may do so and which version or feature it needs; then change the chapter in"
    " docs/protocol, and write the vectors anew: python -m tests.protocol.vectors"
)
WRITTEN: Final = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.file)
def test_vectors_decode_to_their_fields_and_encode_to_their_bytes(family: Family) -> None:
    for vector in WRITTEN[family.file]["vectors"]:
        raw = bytes.fromhex(vector["bytes"])
        fields, again = family.read(raw)
        where = f"{family.file}.json, {vector['name']!r}: {REMEDY}"
        assert plain(fields) == vector["fields"], where
        assert again == raw, where


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.file)
def test_broken_vectors_are_refused_with_their_reason(family: Family) -> None:
    for vector in WRITTEN[family.file]["refused"]:
        reason = family.refusal(bytes.fromhex(vector["bytes"]))
        assert reason == vector["reason"] != "", f"{family.file}.json, {vector['name']!r}: {REMEDY}"


def test_hashes_are_computed_as_the_vectors_say() -> None:
    for vector in WRITTEN["hashes"]["vectors"]:
        raw = datagram_vectors.compute(vector["computes"], vector["fields"])
        assert raw.hex() == vector["bytes"], f"hashes.json, {vector['name']!r}: {REMEDY}"


@pytest.mark.parametrize(
    "conversation", WRITTEN["conversations"]["conversations"], ids=lambda c: c["name"]
)
def test_a_daemon_answers_as_in_the_conversation(conversation: dict[str, Any]) -> None:
    steps = conversations.replay(conversation["steps"])
    assert steps == conversation["steps"], f"conversations.json, {conversation['name']!r}: {REMEDY}"


def test_the_files_are_those_that_the_command_writes() -> None:
    found = {name: text_of(content) for name, content in contents()}
    assert sorted(found) == sorted(WRITTEN)
    for name, text in found.items():
        assert (FOLDER / f"{name}.json").read_text() == text, f"{name}.json: {REMEDY}"


def test_names_in_each_file_are_unique() -> None:
    for name, content in WRITTEN.items():
        for part in ("vectors", "refused", "conversations"):
            names = [each["name"] for each in content.get(part, [])]
            assert len(names) == len(set(names)), f"{name}.json: {part}"


def test_the_key_of_a_view_is_the_hash_of_the_text_in_the_document() -> None:
    """The text is built here as the chapter on packets says, and not by the code."""

    def quoted(name: str) -> str:
        text = name.replace("\u00a0", "\\xa0")
        return f'"{text}"' if "'" in text else f"'{text}'"

    def tuple_of(parts: list[str]) -> str:
        return f"({', '.join(parts)}{',' * (len(parts) == 1)})"

    for vector in WRITTEN["hashes"]["vectors"]:
        if vector["computes"] != "key of a view":
            continue
        fields = vector["fields"]
        first, _, random_id = fields["daemons"][0]
        daemons = [
            f"DaemonId(name={quoted(name)}, incarnation=Incarnation(restarts={restarts},"
            f" random_id={number}))"
            for name, restarts, number in fields["daemons"]
        ]
        parts = [f"{fields['counter']}.{first}.{random_id:x}", tuple_of(daemons)]
        parts += [
            tuple_of([tuple_of([str(index) for index in each]) for each in fields[what]])
            for what in ("rings", "links")
        ]
        text = "|".join(parts).encode()
        key = hashlib.blake2b(text, digest_size=16, person=b"groupcomm view").hexdigest()
        assert key == vector["bytes"], "|".join(parts)


def test_the_digest_of_settings_is_the_hash_of_the_text_in_the_document() -> None:
    (vector,) = [v for v in WRITTEN["hashes"]["vectors"] if v["name"] == "settings"]
    timings = {
        "token_timeout_s": "0.6",
        "token_retransmit_s": "0.02",
        "linger_s": "0.001",
        "request_retry_s": "0.01",
        "repair_delay_s": "0.002",
        "horizon_interval_max_s": "0.005",
        "horizon_interval_min_s": "0.001",
        "agreed_memory_s": "2",
        "longest_delay_s": "0",
        "beacon_interval_s": "0.12",
        "join_interval_s": "0.01",
        "gather_wait_s": "0.05",
    }
    settings = sorted(
        [("packet_bytes", ("1340",)), *((f"timing.{k}", (v,)) for k, v in timings.items())]
    )
    links = [([("a", "b"), ("c",)], 20_000)]
    text = ascii((settings, [("a", "b"), ("c",)], links, 3)).encode()
    digest = hashlib.blake2b(text, digest_size=8, person=b"groupcomm config").hexdigest()
    assert digest == vector["bytes"]
