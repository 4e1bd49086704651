import subprocess
import sys
from pathlib import Path

from groupcomm_tools.local_cluster import LocalCluster

SIGNED = Path(__file__).with_name("signed.py")


def start(address: Path, user: str, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(SIGNED), "--address", str(address), "--user", user, *options],
        stdout=subprocess.PIPE,
        text=True,
    )


async def test_what_another_secret_has_signed_is_not_shown() -> None:
    async with LocalCluster("a") as cluster:
        await cluster.settle("a")
        address = cluster["a"].unix
        with start(address, "ann", "--secret", "apples", "--quiet-s", "60") as ann:
            assert ann.stdout is not None
            assert ann.stdout.readline() == "1 there\n"
            for user, secret in (("bob", "apples"), ("eve", "pears")):
                other = start(address, user, "--secret", secret, "--quiet-s", "0.1", "hello")
                other.communicate(timeout=20)
            lines = [ann.stdout.readline() for _ in range(6)]
            ann.kill()
    shown = [line for line in lines if not line.endswith("there\n")]
    why = "filter signed: it was signed with another secret"
    assert shown == ["#bob#a: hello\n", f"#eve#a: not shown: {why}\n"]
