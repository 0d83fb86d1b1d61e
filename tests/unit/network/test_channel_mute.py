from __future__ import annotations

import pytest

from pyproducer.common.errors import IllegalStateError
from pyproducer.network.authenticator import PlaintextAuthenticator
from pyproducer.network.channel import KafkaChannel
from pyproducer.network.channel_mute import TRANSITIONS, next_mute_state
from pyproducer.network.channel_mute import ChannelMuteEvent as Event
from pyproducer.network.channel_mute import ChannelMuteState as State
from tests.support.transports import ScriptedTransport

ALL_PAIRS = [(state, event) for state in State for event in Event]


def make_channel() -> KafkaChannel:
    transport = ScriptedTransport()
    return KafkaChannel("7", transport, PlaintextAuthenticator(transport))


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


def test_channel_when_an_event_is_illegal_then_its_state_stays() -> None:
    channel = make_channel()
    with pytest.raises(IllegalStateError):
        channel.handle_channel_mute_event(Event.RESPONSE_SENT)
    assert channel.mute_state is State.NOT_MUTED


def test_channel_when_throttled_then_it_waits_for_both_the_response_and_the_end_of_the_throttle() -> None:
    for last in ((Event.RESPONSE_SENT, Event.THROTTLE_ENDED), (Event.THROTTLE_ENDED, Event.RESPONSE_SENT)):
        channel = make_channel()
        channel.mute()
        channel.handle_channel_mute_event(Event.REQUEST_RECEIVED)
        channel.handle_channel_mute_event(Event.THROTTLE_STARTED)
        for event in last:
            assert not channel.maybe_unmute()
            channel.handle_channel_mute_event(event)
        assert channel.mute_state is State.MUTED
        assert channel.maybe_unmute()
        assert not channel.is_muted


def test_mute_when_already_muted_then_the_state_stays() -> None:
    channel = make_channel()
    channel.mute()
    channel.handle_channel_mute_event(Event.REQUEST_RECEIVED)
    channel.mute()
    assert channel.mute_state is State.MUTED_AND_RESPONSE_PENDING
