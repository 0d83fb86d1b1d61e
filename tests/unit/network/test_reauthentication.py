"""A connection that is ready proves anew who we are, and is ready again."""

from __future__ import annotations

from typing import Any

import pytest

from pyproducer.common.errors import AuthenticationError, DisconnectedError, IllegalStateError
from pyproducer.network.channel import ChannelPhase
from pyproducer.network.channel_builder import PlaintextChannelBuilder
from pyproducer.network.receive import NetworkReceive
from pyproducer.network.send import NetworkSend
from tests.support.selector_pair import CLIENT, SelectorPair, make_selector


class Asking:
    """An authenticator that is content with the first connection, and asks b"again?" for each proof after that."""

    principal_name = "User:broker"
    session_lifetime_ms = 5_000

    def __init__(self, transport: Any, _host: str) -> None:
        self.complete = True
        self.wants_write = False
        self._transport = transport
        self._send: NetworkSend | None = None
        self._receive = NetworkReceive("")

    def begin_again(self) -> None:
        self.complete = False
        self._send, self._receive = NetworkSend("", [b"again?"]), NetworkReceive("")

    def authenticate(self) -> None:
        if self._send is not None:
            self._send.write_to(self._transport)
            assert self._send.completed
            self._send = None
        while not self._receive.complete:
            count = self._receive.read_from(self._transport)
            if count < 0:
                raise DisconnectedError("hung up")
            if not count:
                return
        if self._receive.payload != b"yes":
            raise AuthenticationError(bytes(self._receive.payload).decode())
        self.complete = True

    def close(self) -> None:
        """Nothing is kept."""


def asking_pair() -> SelectorPair:
    return SelectorPair(client=make_selector(channel_builder=PlaintextChannelBuilder(Asking)))


def test_connection_when_it_is_authenticated_anew_then_not_ready_until_that_is_done() -> None:
    with asking_pair() as pair:
        assert pair.client.session_lifetime_ms(CLIENT) == 5_000
        pair.request(b"before")
        assert pair.next_at_broker().payload == b"before"
        pair.respond(b"answer")
        assert pair.next_at_client() == [b"answer"]
        assert pair.client.reauthenticate(CLIENT)
        assert pair.next_at_broker().payload == b"again?"
        assert not pair.client.is_channel_ready(CLIENT)
        assert pair.client_channel.phase is ChannelPhase.AUTHENTICATING
        with pytest.raises(IllegalStateError, match="not ready"):
            pair.request(b"among them")
        with pytest.raises(IllegalStateError, match="not ready"):
            pair.client.reauthenticate(CLIENT)
        pair.respond(b"yes")
        pair.step_until(lambda: pair.client.is_channel_ready(CLIENT))
        assert pair.client.completed_receives == []
        assert pair.client.disconnected == {}
        pair.request(b"after")
        assert pair.next_at_broker().payload == b"after"


def test_connection_when_it_is_authenticated_anew_for_the_third_time_then_each_proof_is_its_own() -> None:
    """What a round leaves behind, a frame or its end, is not the next one's."""
    with asking_pair() as pair:
        for number in range(3):
            assert pair.client.reauthenticate(CLIENT)
            assert pair.next_at_broker().payload == b"again?"
            assert not pair.client.is_channel_ready(CLIENT)
            pair.respond(b"yes")
            pair.step_until(lambda: pair.client.is_channel_ready(CLIENT))
            pair.request(b"between %d" % number)
            assert pair.next_at_broker().payload == b"between %d" % number
            pair.respond(b"answer %d" % number)
            assert pair.next_at_client() == [b"answer %d" % number]
        assert pair.client.reauthenticate(CLIENT)
        pair.next_at_broker()
        pair.respond(b"no more")
        pair.step_until(lambda: CLIENT in pair.client.disconnected)
        assert pair.client.disconnected[CLIENT].phase is ChannelPhase.AUTHENTICATION_FAILED


def test_frame_when_it_comes_behind_the_proof_then_it_is_the_channels() -> None:
    with asking_pair() as pair:
        pair.client.reauthenticate(CLIENT)
        pair.next_at_broker()
        pair.broker.send(NetworkSend.raw("broker", b"\0\0\0\x03yes\0\0\0\x04next"))
        assert pair.next_at_client() == [b"next"]


@pytest.mark.parametrize("is_half", [False, True])
def test_connection_when_bytes_are_under_way_then_it_is_not_begun(*, is_half: bool) -> None:
    with asking_pair() as pair:
        if is_half:
            pair.broker.send(NetworkSend.raw("broker", b"\0\0"))
            pair.step_until(lambda: pair.client_channel.is_busy)
        else:
            pair.client_channel.set_send(NetworkSend(CLIENT, [b"half written"]))
        assert not pair.client.reauthenticate(CLIENT)
        with pytest.raises(IllegalStateError, match="something is under way"):
            pair.client_channel.begin_reauthentication()
        assert pair.client.is_channel_ready(CLIENT)


def test_proof_when_it_is_refused_then_the_connection_ends_as_at_the_first_time() -> None:
    with asking_pair() as pair:
        pair.client.reauthenticate(CLIENT)
        pair.next_at_broker()
        pair.respond(b"no")
        pair.step_until(lambda: pair.client.disconnected)
        state = pair.client.disconnected[CLIENT]
        assert (state.phase, str(state.error)) == (ChannelPhase.AUTHENTICATION_FAILED, "no")


def test_peer_when_it_hangs_up_meanwhile_then_the_connection_ends() -> None:
    with asking_pair() as pair:
        pair.client.reauthenticate(CLIENT)
        pair.broker.close("broker")
        pair.step_until(lambda: pair.client.disconnected)
        state = pair.client.disconnected[CLIENT]
        assert state.phase is ChannelPhase.AUTHENTICATING
        assert isinstance(state.error, (DisconnectedError, ConnectionError))


def test_connection_when_it_breaks_at_once_then_the_next_poll_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with asking_pair() as pair:
        def broken(_chunks: Any) -> int:
            raise BrokenPipeError("broken")

        monkeypatch.setattr(type(pair.client_channel.transport), "write_chunks", lambda _self, chunks: broken(chunks))
        assert pair.client.reauthenticate(CLIENT)
        pair.client.poll(60_000, 0)
        assert isinstance(pair.client.disconnected[CLIENT].error, BrokenPipeError)


def test_connection_when_there_is_nothing_to_prove_then_it_has_no_end_and_cannot_be_renewed() -> None:
    with SelectorPair() as pair:
        assert pair.client.session_lifetime_ms(CLIENT) == 0
        assert pair.client.session_lifetime_ms("unknown") == 0
        with pytest.raises(IllegalStateError):
            pair.client.reauthenticate(CLIENT)
        with pytest.raises(IllegalStateError, match="not ready"):
            pair.client.reauthenticate("unknown")
