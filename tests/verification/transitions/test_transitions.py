"""The recorder of transitions sees all of them, and leaves no trace."""

import pytest

from groupcomm.ring.ring import Ring
from tests.verification.simulation.runs import run_seed
from tests.verification.simulation.settings import VerificationOptions
from tests.verification.transitions.machines import MACHINES
from tests.verification.transitions.recorder import BEGIN, recording

pytestmark = pytest.mark.verification


def test_only_listed_transitions_happen() -> None:
    listed = {each for machine in MACHINES for each in machine.transitions}
    with recording(MACHINES) as reached:
        run_seed(3, VerificationOptions(duration_s=1.0, targets=True, sites=2))
    assert set(reached) <= listed
    assert reached["membership", "RECOVERED", "OPERATIONAL"]
    assert reached["ring", BEGIN, "RESTING"]
    assert reached["session at its client", "GREETING", "OPEN"]


def test_recorded_runs_are_the_same_runs() -> None:
    options = VerificationOptions(duration_s=0.5, daemons=3)
    plain = run_seed(4, options).trace_hash
    with recording(MACHINES):
        assert run_seed(4, options).trace_hash == plain
    assert type(vars(Ring)["state"]).__name__ == "member_descriptor"


def test_each_state_is_listed() -> None:
    for machine in MACHINES:
        names = {state.name for state in machine.states}
        assert {after for _, _, after in machine.transitions} == names
        assert machine.after.keys() - {BEGIN} <= names
