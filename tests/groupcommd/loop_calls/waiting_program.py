"""A program whose steps call what may wait, each thing once."""

import os
import pwd
import socket
import subprocess
import sys
import tempfile
import threading
import time

import trio


class Waiting:
    """Calls what the command line names."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._one, self._other = socket.socketpair()
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - it ends with the program

    async def run(self, where: str) -> None:
        """Call all of it, in the loop or in a thread."""
        await trio.lowlevel.checkpoint()
        if where == "thread":
            await trio.to_thread.run_sync(self.wait)
        else:
            self.wait()

    def wait(self) -> None:
        """Call all of it."""
        self.sleep()
        self.sync()
        self.write()
        self.list_folder()
        self.look_up()
        self.look_user_up()
        self.lock()
        self.send()
        self.start()

    def sleep(self) -> None:
        time.sleep(0)

    def sync(self) -> None:
        os.fsync(self._file.fileno())

    def write(self) -> None:
        self._file.write(b"x")

    def list_folder(self) -> None:
        os.scandir(".").close()

    def look_up(self) -> None:
        socket.getaddrinfo("127.0.0.1", 1)

    def look_user_up(self) -> None:
        pwd.getpwuid(0)

    def lock(self) -> None:
        with self._lock:
            pass

    def send(self) -> None:
        self._one.send(b"x")

    def start(self) -> None:
        subprocess.run([sys.executable, "-S", "-c", ""], check=True)


async def main(where: str) -> None:
    """Run it."""
    await Waiting().run(where)


if __name__ == "__main__":
    sys.modules["waiting_program"] = sys.modules["__main__"]
    trio.run(main, sys.argv[1])
