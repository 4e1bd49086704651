"""The campaign of the installed package: what it takes from the pages and the unit is there."""

import os
import subprocess

import pytest

from tests.verification.campaigns.deployment import SET_UP, commands, setting, settings
from tests.verification.campaigns.runner import NotHere, play


def test_the_pages_have_the_commands_that_the_campaign_runs() -> None:
    (keygen, chown, start) = commands("operating.md", "groupcomm keygen /var")
    assert (keygen.split()[1], chown.split()[0], start.split()[0]) == (
        "keygen",
        "chown",
        "systemctl",
    )
    rotation = commands("security.md", "groupcomm keys add plant.key")
    assert [line.split()[0] for line in rotation].count("scp") == 1
    for first in (
        "groupcomm certs init pki",
        "groupcomm certs renew pki alfa",
        "groupcomm certs revoke pki ann",
        "groupcomm tokens remove /var",
    ):
        assert commands("operating.md", first)[-1]
    assert "revoked.toml" in settings("operating.md", "[clients.tls]")


def test_the_unit_has_the_settings_that_stand_for_systemd() -> None:
    assert setting("ExecReload") == '/bin/sh -c "kill -HUP $MAINPID"'
    for key in ("User", "Group", "RuntimeDirectory", "StateDirectory", "UMask", "Environment"):
        assert setting(key)
    subprocess.run(["sh", "-n", "-c", SET_UP], check=True)


def test_who_is_not_root_is_told_so() -> None:
    if os.geteuid() == 0:
        os.seteuid(65534)
    try:
        with pytest.raises(NotHere, match="only root"):
            play("deployment")
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
