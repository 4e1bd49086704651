"""Write to the service while this program leads, with the term as token.

python examples/fencing/writer.py --url http://127.0.0.1:8080/ --user kim --times 3
"""

import argparse
import time
import urllib.error
import urllib.request

from groupcomm_client import blocking
from groupcomm_client.coordination.blocking import stand

PAUSE_S = 0.05


def put(url: str, data: bytes, token: int) -> bool:
    """Write; return False if the service has seen a later term."""
    request = urllib.request.Request(url, data, method="PUT")
    request.add_header("Fencing-Token", f"{token:032x}")
    try:
        with urllib.request.urlopen(request, timeout=10):
            return True
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 412:
                return False
        raise


def run(options: argparse.Namespace) -> None:
    with (
        blocking.connect(options.address, user=options.user, reconnect=True) as connection,
        stand(connection, "writers") as election,
        election.leading(),
    ):
        for number in range(options.times):
            written = put(options.url, f"{options.user} {number}".encode(), election.term)
            print(f"{options.user}: {'written' if written else 'refused'}", flush=True)
            time.sleep(PAUSE_S)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write while this program leads.")
    parser.add_argument("--address", help="of a daemon; else $GROUPCOMM_ADDRESS, else this user's")
    parser.add_argument("--user", default="kim", help="name of this program (kim)")
    parser.add_argument("--url", default="http://127.0.0.1:8080/", help="of the service")
    parser.add_argument("--times", type=int, default=3, help="how many writes (3)")
    blocking.run(run, parser.parse_args())


if __name__ == "__main__":
    main()
