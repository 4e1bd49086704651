"""What the rules of a configuration make impossible, by who can come in at all."""

from groupcomm.security.access_review import review
from groupcommd.config_file import DaemonConfig
from groupcommd.local_users import owners


def impossible(config: DaemonConfig) -> list[str]:
    """Return what nobody can do by the rules of a configuration, a sentence each."""
    return review(config.access, arrivals(config), owners())


def arrivals(config: DaemonConfig) -> list[str]:
    """Return patterns of all principals that a daemon can find out."""
    found = ["unix:*", "uid:*"]
    if config.tls is not None and config.tls.ca is not None:
        found.append("cert:*")
    if config.tls is not None and config.tls.tokens is not None:
        found.append("token:*")
    return found
