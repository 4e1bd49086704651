"""The public names of groupcomm: the rule, and the modules that have them.

A module is public if it stands in `MODULES`. A name is public if it is in the ``__all__`` of a
public module; in a module without one, if the module defines it and it has no leading underscore;
and where `MODULES` has names after the module, only those. Of a public class its methods and
properties without a leading underscore are public, and its fields. Everything else may change in
any release.

An object with several public names is described once, under the first of them.
"""

import ast
import importlib
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

_ALGORITHMS: Final = (
    *("process", "network", "catalogue", "history", "traced"),
    *("sequencer", "central_scheduler", "token_ring", "acknowledged", "global_id", "real_time"),
    *("numbered", "pair_numbers", "fan_out", "last_sender", "message_history"),
    *("vector", "vector_choices", "vector_paths", "vector_session", "schiper_eggli_sandoz"),
    *("buffering", "concurrency", "lamport_clocks", "restart_clock", "site_horizons"),
    *("mutual_exclusion", "lamport_mutex", "replicated_queue", "step_orders", "tick_lines"),
)

MODULES: Final[dict[str, tuple[str, ...] | None]] = {
    "groupcomm_client": None,
    "groupcomm.errors": None,
    "groupcomm.level": None,
    "groupcomm.events": None,
    "groupcomm_client.aio": None,
    "groupcomm_client.blocking": None,
    "groupcomm_client.typed": ("BlockingTyped", "Typed"),
    "groupcomm_client.events": ("Received",),
    "groupcomm_client.connection": ("Connection", "Destinations"),
    "groupcomm_client.options": ("ConnectOptions", "TlsOptions", "Resume"),
    "groupcomm_client.coordination": None,
    "groupcomm_client.coordination.mutex": None,
    "groupcomm_client.coordination.blocking": None,
    "groupcomm_client.history": None,
    "groupcomm_client.filters": None,
    "groupcomm_client.end_to_end": None,
    "groupcomm_client.committed": None,
    "groupcomm_lessons.direct": None,
    "groupcomm_client.spread_api.constants": None,
    "groupcomm_client.spread_api.functions": None,
    "groupcomm_client.spread_api.mailbox": (*("Received_message", "group_id", "membership_info"),),
    "groupcomm_client.spread_api.flush": None,
    "groupcomm_client.spread_api.event_loop": None,
    "groupcomm_log.reader": ("LogReader", "Start", "find_start", "parse_start"),
    "groupcomm_log.writer": ("Limits", "LogWriter"),
    "groupcomm_log.schema": ("KINDS", "Offset", "SCHEMA", "rows_of", "schema_of"),
    "groupcomm_log.check": None,
    "groupcomm_log.diff": ("Comparison", "compare"),
    "groupcomm_log.view_periods": ("GroupChange", "ViewPeriod", "read_periods"),
    "groupcomm_log.errors": None,
    "groupcomm_log.channel": None,
    "groupcomm_log.channel.distributions": (
        *("Counted", "Distribution", "Fit", "Gamma", "Lognormal", "Quantiles", "fit_delays"),
    ),
    "groupcomm_log.channel.losses": (
        *("GilbertElliott", "Windows", "count_windows", "fit_losses", "independent"),
    ),
    "groupcomm_client.committed.log": None,
    "pyspark_groupcomm": None,
    "groupcomm_spark.session": ("open_session",),
    "groupcomm_spark": None,
    "groupcomm_spark.verify.job": (*("History", "compare_agreed", "verify", "verify_folders"),),
    "groupcomm_spark.verify.verdict": ("Verdict", "Violation"),
    "groupcomm.sim.settings": ("Options", "Settings", "draw_settings", "plain_settings"),
    "groupcomm.sim.run": ("Finding", "RunResult", "make_workload", "run", "run_seed"),
    "groupcomm.sim.workload": ("Workload",),
    "groupcomm.sim.cluster.cluster": ("Cluster",),
    "groupcomm.sim.cluster.clients": None,
    "groupcomm.sim.faults.faults": ("Faults", "draw_faults", "fault_names"),
    "groupcomm.sim.network.links": (
        *("SimulatedLink", "TOPOLOGIES", "chain", "equal_links", "mesh", "ring", "star"),
    ),
    "groupcomm_lessons.simulated_peers": ("PeerNetwork", "UsualPath"),
    "groupcomm.sim.check": None,
    "groupcomm_lessons.check": None,
    "groupcomm_tools.traces.check": None,
    "groupcomm_tools.traces.files": None,
    "groupcomm_tools.traces.reading": ("TraceError", "read_together", "read_trace"),
    "groupcomm_tools.traces.text": ("readable",),
    "groupcomm.sim.checkers": None,
    "groupcomm_lessons.comparison": ("ComparisonLoad", "ComparisonRow", "compare"),
    "groupcomm_tools.testing": None,
    "groupcomm_tools.running_cluster": ("RunningCluster",),
    "groupcomm_tools.view.build": ("make_diagram",),
    "groupcomm_tools.view.page": ("make_page",),
    "groupcomm_tools.relay": ("Line", "Relay"),
    "groupcomm_tools.local_cluster": ("LocalCluster", "LocalDaemon"),
    **{f"groupcomm_lessons.algorithms.{name}": None for name in _ALGORITHMS},
    "groupcomm.clocks.lamport": None,
    "groupcomm.clocks.vector": None,
}
"""The public modules, in the order in which their names are looked for; None: all their names."""


class PublicName(NamedTuple):
    """One public name.

    Attributes:
        module: the public module that has it.
        name: the name there.
        origin, defined: the module that defines the object, and its name there.
        first: the public name under which the object is described; its own, usually.
    """

    module: str
    name: str
    origin: str
    defined: str
    first: str

    @property
    def full(self) -> str:
        """Return the dotted name."""
        return f"{self.module}.{self.name}"


@cache
def tree_of(module: str) -> ast.Module:
    """Return the parsed source of a module."""
    return ast.parse(Path(inspect.getsourcefile(importlib.import_module(module)) or "").read_text())


def names_of(module: str) -> list[str]:
    """Return the public names of a public module, in the order of its source or ``__all__``."""
    given = MODULES[module]
    if given is not None:
        return list(given)
    found = importlib.import_module(module)
    if hasattr(found, "__all__"):
        return [*dict.fromkeys(found.__all__)]
    return [name for name in defined_in(module) if not name.startswith("_")]


def defined_in(module: str) -> Iterator[str]:
    """Yield the names of the classes, functions and constants that a module defines."""
    for node in tree_of(module).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def origin_of(module: str, name: str) -> tuple[str, str]:
    """Return the module that defines a name of a module, and its name there."""
    if name not in defined_in(module):
        for node in ast.walk(tree_of(module)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_OURS):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return origin_of(str(node.module), alias.name)
    return module, name


_OURS: Final = ("groupcomm", "pyspark_groupcomm")


def value_of(module: str, name: str) -> Any:
    """Return what a name of a module stands for."""
    return getattr(importlib.import_module(module), name)


@cache
def public_names() -> tuple[PublicName, ...]:
    """Return all public names, without those that stand for modules."""
    firsts: dict[tuple[str, str], str] = {}
    found = []
    for module in MODULES:
        for name in names_of(module):
            value = value_of(module, name)
            if isinstance(value, ModuleType):
                continue
            origin = origin_of(module, name)
            first = firsts.setdefault(origin, f"{module}.{name}")
            found.append(PublicName(module, name, *origin, first))
    return tuple(found)
