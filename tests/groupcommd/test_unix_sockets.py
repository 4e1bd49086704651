"""Paths of unix sockets that are in use."""

import os
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from groupcomm.errors import ConfigError
from groupcommd.sockets import listen_unix
from groupcommd.unix_sockets import check_free


def test_a_daemon_is_told_which_other_one_has_its_path_and_what_to_do() -> None:
    with tempfile.TemporaryDirectory() as folder:  # its path is short enough, and private
        path = Path(folder) / "groupcomm.sock"
        with closing(listen_unix(path)):
            with pytest.raises(ConfigError) as refused:
                listen_unix(path)
            with pytest.raises(ConfigError, match=r"http\.listen .* or choose another path$"):
                check_free(path, "http.listen")
        check_free(path, "clients.unix")
    text = str(refused.value)
    assert f"clients.unix is {path}; another daemon listens there (process {os.getpid()}:" in text
    assert Path(sys.executable).name in text
    assert "choose another path with --unix, and give it to programs with --address" in text
    assert 'unix = "{name}.sock" in [clients]' in text
