"""A stepped producer with a transactional id: its own requests are answered by the test, like the others."""

from __future__ import annotations

from typing import Any

from pyproducer.client.api_versions import FinalizedFeatures
from pyproducer.client.request import ClientRequest
from pyproducer.protocol.apis import ApiKeys
from pyproducer.transaction.transaction_state import TransactionState
from tests.unit.sender.stepped_producer import SteppedProducer

FIND, INIT, ADD, ADD_OFFSETS, COMMIT_OFFSETS, END, PRODUCE, DESCRIBE = (
    ApiKeys.FIND_COORDINATOR, ApiKeys.INIT_PRODUCER_ID, ApiKeys.ADD_PARTITIONS_TO_TXN, ApiKeys.ADD_OFFSETS_TO_TXN,
    ApiKeys.TXN_OFFSET_COMMIT, ApiKeys.END_TXN, ApiKeys.PRODUCE, ApiKeys.DESCRIBE_TRANSACTIONS)


class SteppedTransactions(SteppedProducer):
    """`level` is the brokers' transaction.version. `own` is the client's own request on its way."""

    def __init__(self, *, level: int = 2, version: int = 13, **settings: Any) -> None:
        super().__init__(transactional_id="shop", version=version, **settings)
        assert self.transactions is not None, "it has an id"
        self.tx = self.transactions
        self.set_level(level)

    def set_level(self, level: int, epoch: int = 1) -> None:
        """Finalize a transaction.version."""
        self.client.features = FinalizedFeatures(epoch, {"transaction.version": level} if level else {})

    @property
    def state(self) -> TransactionState:
        return self.tx.state

    @property
    def own(self) -> ClientRequest:
        """The client's own request on its way; fails the test when there is none, or more than one."""
        (request,) = [request for request in self.client.in_flight if request.api_key is not PRODUCE]
        return request

    def apis(self) -> list[ApiKeys]:
        """The APIs of what is on its way."""
        return [request.api_key for request in self.client.in_flight]

    def answer_own(self, api: ApiKeys, code: int = 0, **fields: Any) -> ClientRequest:
        """Answer the client's own request, which is of this API."""
        request = self.own
        assert request.api_key is api, f"{request} is on its way"
        body = self.client.body_of(request)
        if api is FIND:
            answer: dict[str, Any] = {"node_id": 1, "host": "127.0.0.1", "port": 9092, "error_code": code,
                                      "error_message": "", **fields}
            if "coordinator_keys" in body:  # from version 4 on
                answer = {"coordinators": [{"key": body["coordinator_keys"][0], **answer}]}
        elif api is ADD:
            answer = {"results_by_topic_v3_and_below": [
                {"name": topic["name"], "results_by_partition": [
                    {"partition_index": index, "partition_error_code": code} for index in topic["partitions"]]}
                for topic in body["v3_and_below_topics"]]}
        elif api is COMMIT_OFFSETS:
            answer = {"topics": [{"name": topic["name"], "partitions": [
                {"partition_index": row["partition_index"], "error_code": code} for row in topic["partitions"]]}
                for topic in body["topics"]]}
        else:
            defaults = {INIT: {"producer_id": 7, "producer_epoch": 0}, END: {"producer_id": -1, "producer_epoch": -1},
                        ADD_OFFSETS: {}, DESCRIBE: {}}[api]
            answer = {"error_code": code, **defaults, **fields}
        self.client.answer({"throttle_time_ms": 0, **answer}, request=request, received_ms=self.clock.now_ms())
        return request

    def lose_own(self, api: ApiKeys, *, was_sent: bool = True) -> None:
        """End the connection before the client's own request is answered."""
        request = self.own
        assert request.api_key is api
        self.lose(request=request, was_sent=was_sent)

    def init(self, epoch: int = 0) -> None:
        """Call init_transactions(), and let it come to its end."""
        pending = self.tx.initialize(None)
        self.turn()
        if self.apis() == [FIND]:
            self.answer_own(FIND)
            self.turn()
        self.answer_own(INIT, producer_epoch=epoch)
        assert (pending.is_set, pending.error, self.state) == (True, None, TransactionState.READY)
        pending.is_told = True

    def begin(self) -> None:
        """Initialise, unless that was done, and begin a transaction; the call before has returned."""
        if self.tx.pending is not None and self.tx.pending.is_set:
            self.tx.pending.is_told = True
        if self.state is TransactionState.UNINITIALIZED:
            self.init()
        self.tx.begin()

    def add(self, code: int = 0) -> ClientRequest:
        """Take a turn, and answer the AddPartitionsToTxn that it sends."""
        self.turn()
        return self.answer_own(ADD, code)

    def end(self, epoch: int = 1, code: int = 0) -> ClientRequest:
        """Take a turn, and answer the EndTxn that it sends, from Transactions V2 on with the next epoch."""
        self.turn()
        fields = {"producer_id": 7, "producer_epoch": epoch} if self.tx.is_v2 and code == 0 else {}
        return self.answer_own(END, code, **fields)
