"""A server of DNS for tests: it answers from a file, which may change at any time.

    python -m tests.verification.campaigns.dns_server records.json 10.77.0.1

The file has the texts of records by name and type, such as {"a.test A": ["10.77.0.2"]}. Names that
it does not have do not exist; no answer may be kept for longer than a second.
"""

import json
import socket
import sys
from pathlib import Path

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

TTL_S = 1


def answer(query: bytes, records: dict[str, list[str]]) -> bytes:
    """Return the answer to a query."""
    asked = dns.message.from_wire(query)
    reply = dns.message.make_response(asked)
    reply.flags |= dns.flags.AA | dns.flags.RA
    for question in asked.question:
        name = question.name.to_text(omit_final_dot=True)
        found = records.get(f"{name} {dns.rdatatype.to_text(question.rdtype)}")
        if found:
            kind = dns.rdatatype.to_text(question.rdtype)
            reply.answer.append(dns.rrset.from_text_list(question.name, TTL_S, "IN", kind, found))
        elif not any(key.startswith(f"{name} ") for key in records):
            reply.set_rcode(dns.rcode.NXDOMAIN)
    return bytes(reply.to_wire())


def main(path: Path, host: str) -> None:
    """Serve until the process is ended."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((host, 53))
        print("ready", flush=True)
        while True:
            query, sender = server.recvfrom(4096)
            server.sendto(answer(query, json.loads(path.read_text())), sender)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
