"""Scenarios: text files of commands and their expected effects; docs/scenarios.md has their
format."""

from groupcomm.sim.scenario.run import Outcome, run_scenario
from groupcomm.sim.scenario.script import ScenarioError

__all__ = ["Outcome", "ScenarioError", "run_scenario"]
