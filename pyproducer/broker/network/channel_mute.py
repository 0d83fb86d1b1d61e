"""When a connection is not read from: the mute states of a channel and the events that change them.

                      mute()                     REQUEST_RECEIVED
    NOT_MUTED <-------------------------> MUTED ------------------> MUTED_AND_RESPONSE_PENDING
               maybe_unmute()               ^                          |  ^            |  ^
                                            +------ RESPONSE_SENT -----+  |   THROTTLE_STARTED / THROTTLE_ENDED
                                            |                             |            v  |
                                            +-- MUTED_AND_THROTTLED <-- RESPONSE_SENT -- MUTED_AND_THROTTLED_AND_...
                                 THROTTLE_ENDED

A request mutes its connection; it is read again when the response is written *and* the throttling is over.

Road:    Processor -> ServerSelector -> [mute state]
Thread:  pure.
Source:  Java KafkaChannel.ChannelMuteState, ChannelMuteEvent, handleChannelMuteEvent (4.1); KIP-219.
"""

from __future__ import annotations

from enum import Enum

from pyproducer.common.errors import IllegalStateError


class ChannelMuteState(Enum):
    """Whether a channel is read from, and what it waits for."""

    NOT_MUTED = "not muted"
    MUTED = "muted"
    MUTED_AND_RESPONSE_PENDING = "muted, a response is pending"
    MUTED_AND_THROTTLED = "muted, throttled"
    MUTED_AND_THROTTLED_AND_RESPONSE_PENDING = "muted, throttled, a response is pending"


class ChannelMuteEvent(Enum):
    """What changes the state of a muted channel."""

    REQUEST_RECEIVED = "request received"
    RESPONSE_SENT = "response sent"
    THROTTLE_STARTED = "throttle started"
    THROTTLE_ENDED = "throttle ended"


TRANSITIONS: dict[tuple[ChannelMuteState, ChannelMuteEvent], ChannelMuteState] = {
    (ChannelMuteState.MUTED, ChannelMuteEvent.REQUEST_RECEIVED):
        ChannelMuteState.MUTED_AND_RESPONSE_PENDING,
    (ChannelMuteState.MUTED_AND_RESPONSE_PENDING, ChannelMuteEvent.RESPONSE_SENT):
        ChannelMuteState.MUTED,
    (ChannelMuteState.MUTED_AND_RESPONSE_PENDING, ChannelMuteEvent.THROTTLE_STARTED):
        ChannelMuteState.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING,
    (ChannelMuteState.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING, ChannelMuteEvent.RESPONSE_SENT):
        ChannelMuteState.MUTED_AND_THROTTLED,
    (ChannelMuteState.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING, ChannelMuteEvent.THROTTLE_ENDED):
        ChannelMuteState.MUTED_AND_RESPONSE_PENDING,
    (ChannelMuteState.MUTED_AND_THROTTLED, ChannelMuteEvent.THROTTLE_ENDED):
        ChannelMuteState.MUTED,
}


def next_mute_state(state: ChannelMuteState, event: ChannelMuteEvent) -> ChannelMuteState:
    """Return the state after an event.

    Raises:
        IllegalStateError: The event makes no sense in this state. Not sent.
    """
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalStateError(f"Cannot transition from {state.name} for {event.name}") from None
