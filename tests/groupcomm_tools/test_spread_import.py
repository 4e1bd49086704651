"""`groupcomm spread import`: configurations of Spread's daemons become ours."""

from pathlib import Path

import pytest

from groupcomm.errors import ConfigError
from groupcomm.host.key_file import write_key_file
from groupcomm_tools.cli import main
from groupcomm_tools.spread_import import NO_MEANING, parse_spread_conf, to_groupcomm
from groupcommd.config_file import read_config

CONF = """
# two segments, as in Spread's own sample
Spread_Segment 127.0.0.255:4813 {
    press 127.0.0.1
    oven  127.0.0.2:4815
}
Spread_Segment 239.1.2.3 {
    gate 127.0.0.3 {
        D 127.0.0.4
        C 127.0.0.5
    }
}
EventLogFile = "spread.log"   # a setting
DebugFlags = { PRINT EXIT }
TokenTimeout = 5000
MaxSessionMessages = 5000
FromTomorrow = yes
"""


def test_daemons_and_ports_are_taken_over(tmp_path: Path) -> None:
    (tmp_path / "spread.conf").write_text(CONF)
    made = tmp_path / "groupcomm.toml"
    assert main(["spread", "import", str(tmp_path / "spread.conf"), "--to", str(made)]) == 0
    write_key_file(tmp_path / "cluster.key")
    config = read_config(made, name="gate", state_dir=None)
    assert config.core.sites == (("oven", "press"), ("gate",))
    assert {name: str(address) for name, address in config.addresses.items()} == {
        "press": "127.0.0.1:4813",
        "oven": "127.0.0.2:4815",
        "gate": "127.0.0.4:4803",
    }
    assert (config.spread, config.unix_for) == (True, "all")
    assert main(["spread", "import", str(tmp_path / "spread.conf"), "--to", str(made)]) == 2


def test_what_has_no_meaning_is_named_with_what_serves_instead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "spread.conf").write_text(CONF)
    assert main(["spread", "import", str(tmp_path / "spread.conf")]) == 0
    told = capsys.readouterr().out
    for setting in ("EventLogFile = spread.log", "DebugFlags = PRINT EXIT", "TokenTimeout = 5000"):
        name = setting.partition(" ")[0].lower()
        assert f"# - {setting}: {NO_MEANING[name]}\n" in told
    assert "# - FromTomorrow = yes: there is nothing like it\n" in told
    assert "# - gate: programs connect at 127.0.0.5 there" in told
    assert "Spread used multicast 239.1.2.3" in told


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no Spread_Segment has a daemon"),
        ("Spread_Segment 127.0.0.255 { a 127.0.0.1", "the end of the file, where"),
        ("Spread_Segment x { }", "'x' is no IPv4 address"),
        ("Spread_Segment 127.0.0.255:70000 { }", "is no IPv4 address"),
        ("Spread_Segment 127.0.0.255 { 127.0.0.1 }", "has no name"),
        ("Spread_Segment 127.0.0.255 { a 127.0.0.1 a 127.0.0.2 }", "daemon 'a' is listed twice"),
        ("\n\nWindow 5", "line 3: '5', where '=' is expected"),
        (f"Spread_Segment 127.0.0.255 {{ {'a' * 20} 127.0.0.1 }}", "more than the 19 bytes"),
    ],
)
def test_a_file_that_is_no_spread_conf_is_refused_with_the_reason(text: str, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        to_groupcomm(parse_spread_conf(text))


def test_one_segment_is_one_site_with_a_plain_name() -> None:
    conf = parse_spread_conf("Spread_Segment 127.0.0.255 { a 127.0.0.1 }")
    assert "[sites.main.daemons]" in to_groupcomm(conf)
    assert "Not taken over" not in to_groupcomm(conf)
