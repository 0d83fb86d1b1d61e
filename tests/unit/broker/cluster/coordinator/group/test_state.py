from __future__ import annotations

import itertools

import pytest

from pyproducer.broker.cluster.coordinator.group.classic_group import ClassicGroup
from pyproducer.broker.cluster.coordinator.group.state import VALID_PREVIOUS_STATES, GroupState, check_transition
from pyproducer.common.errors import IllegalStateError

EMPTY, PREPARING, COMPLETING, STABLE = GroupState
# Java ClassicGroupState of 4.1, row by row; without Dead, in which nobody ever sees a group.
ALLOWED = {
    (PREPARING, EMPTY),
    (STABLE, PREPARING), (COMPLETING, PREPARING), (EMPTY, PREPARING),
    (PREPARING, COMPLETING),
    (COMPLETING, STABLE),
}


@pytest.mark.parametrize(("current", "target"), list(itertools.product(GroupState, repeat=2)))
def test_only_what_the_table_has_is_possible(current: GroupState, target: GroupState) -> None:
    group = ClassicGroup("g")
    group.state = current
    group.previous_state = EMPTY
    if (current, target) in ALLOWED:
        group.transition_to(target)
        assert (group.previous_state, group.state) == (current, target)
    else:
        with pytest.raises(IllegalStateError, match=f"before moving to the {target.value} state"):
            group.transition_to(target)
        assert (group.previous_state, group.state) == (EMPTY, current), "nothing has changed"


def test_every_state_has_a_row() -> None:
    assert set(VALID_PREVIOUS_STATES) == set(GroupState)


def test_the_refusal_names_group_and_states() -> None:
    with pytest.raises(IllegalStateError) as caught:
        check_transition("g", EMPTY, STABLE)
    assert str(caught.value) == ("Group g should be in one of the states CompletingRebalance before moving to the "
                                 "Stable state. Instead it is in the Empty state.")
