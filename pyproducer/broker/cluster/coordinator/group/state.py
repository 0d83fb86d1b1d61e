"""The states of a classic consumer group, and from which one may come to which.

Road:    classic group -> [state]
Thread:  constants.
Source:  Java ClassicGroupState (4.1). Omits its Dead: a group that is removed is gone at once, under the same lock.

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable
      ^           |   ^    ^               |                |
      +-----------+   |    +---------------+                |
                      +-------------------------------------+
"""

from __future__ import annotations

from enum import Enum

from pyproducer.common.errors import IllegalStateError


class GroupState(Enum):
    """A state, under the name that DescribeGroups gives it."""

    EMPTY = "Empty"  # no members; there may be offsets
    PREPARING_REBALANCE = "PreparingRebalance"  # waits until all members have joined
    COMPLETING_REBALANCE = "CompletingRebalance"  # waits for the leader's assignment
    STABLE = "Stable"


# state -> the states from which it may be entered
VALID_PREVIOUS_STATES: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset((GroupState.PREPARING_REBALANCE,)),
    GroupState.PREPARING_REBALANCE: frozenset(
        (GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY)),
    GroupState.COMPLETING_REBALANCE: frozenset((GroupState.PREPARING_REBALANCE,)),
    GroupState.STABLE: frozenset((GroupState.COMPLETING_REBALANCE,)),
}


def check_transition(group_id: str, current: GroupState, target: GroupState) -> None:
    """Let a transition that the table has pass.

    Raises:
        IllegalStateError: The table does not have it; a bug of the coordinator.
    """
    if current not in VALID_PREVIOUS_STATES[target]:
        raise IllegalStateError(
            f"Group {group_id} should be in one of the states "
            f"{', '.join(sorted(state.value for state in VALID_PREVIOUS_STATES[target]))} before moving to the "
            f"{target.value} state. Instead it is in the {current.value} state.")
