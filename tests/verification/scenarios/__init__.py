"""Scenarios: text files of commands and their expected effects; docs/scenarios.md has their
format."""

from tests.verification.scenarios.run import Outcome, run_scenario
from tests.verification.scenarios.script import ScenarioError

__all__ = ["Outcome", "ScenarioError", "run_scenario"]
