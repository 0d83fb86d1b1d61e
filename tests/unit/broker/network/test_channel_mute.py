from __future__ import annotations

import pytest

from pyproducer.broker.network.channel_mute import TRANSITIONS, next_mute_state
from pyproducer.broker.network.channel_mute import ChannelMuteEvent as Event
from pyproducer.broker.network.channel_mute import ChannelMuteState as State
from pyproducer.common.errors import IllegalStateError

ALL_PAIRS = [(state, event) for state in State for event in Event]


@pytest.mark.parametrize(("state", "event"), [pair for pair in ALL_PAIRS if pair in TRANSITIONS])
def test_event_when_legal_then_the_table_says_where_it_leads(state: State, event: Event) -> None:
    assert next_mute_state(state, event) is TRANSITIONS[state, event]


@pytest.mark.parametrize(("state", "event"), [pair for pair in ALL_PAIRS if pair not in TRANSITIONS])
def test_event_when_illegal_then_it_raises_with_both_names(state: State, event: Event) -> None:
    with pytest.raises(IllegalStateError, match=f"Cannot transition from {state.name} for {event.name}"):
        next_mute_state(state, event)


def test_table_when_compared_with_java_then_it_has_its_six_transitions() -> None:
    assert len(TRANSITIONS) == 6
    assert not any(state is State.NOT_MUTED for state, _ in TRANSITIONS)
