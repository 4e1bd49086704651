"""A service over HTTP that keeps one value, and refuses writers with an older token.

    python examples/fencing/service.py --port 8080

It knows nothing of groupcomm: a PUT carries its token in the header ``Fencing-Token``.
"""

import argparse
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MOST_BYTES = 1_000_000
DIGITS = 32


class Value:
    """The value, and the highest token that has written it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.data = b""
        self._token = ""

    def write(self, data: bytes, token: str) -> bool:
        """Write unless a later holder has: the check and the write are one step."""
        with self._lock:
            if token < self._token:
                return False
            self.data, self._token = data, token
            return True


class Handler(BaseHTTPRequestHandler):
    """GET returns the value, PUT replaces it: 412 says that a later holder has written."""

    value = Value()

    def do_GET(self) -> None:
        self._answer(200, self.value.data)

    def do_PUT(self) -> None:
        token = self.headers.get("Fencing-Token", "")
        size = self.headers.get("Content-Length", "")
        if len(token) != DIGITS or not size.isdigit() or int(size) > MOST_BYTES:
            self._answer(400, b"send the header Fencing-Token, with 32 digits, and the size")
        elif self.value.write(self.rfile.read(int(size)), token):
            self._answer(200, b"written")
        else:
            self._answer(412, b"refused: a later holder has written")

    def _answer(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing: the writers say what they do."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Keep a value.")
    parser.add_argument("--port", type=int, default=8080, help="on 127.0.0.1; 0 for any (8080)")
    with ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Handler) as server:
        print(f"http://127.0.0.1:{server.server_port}/", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
