"""What differs between the clusters that a model broker may be: releases, limits, who may interfere.

Thread:  values; whoever steps the model may change them between two requests, as an upgrade does.
Source:  ours; the defaults are those of Kafka 4.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyproducer.protocol.apis import ApiKeys
from tests.simulation.model_faults import Interference
from tests.simulation.model_log import KAFKA_4_1, Idempotence, Witness
from tests.simulation.model_sasl import ModelListener
from tests.simulation.model_telemetry import Wanted


@dataclass(frozen=True)
class ModelClient:
    """What is known of all who come: whoever says anything else has a bug.

    Attributes:
        client_id: In each request.
        software_name: In ApiVersions.
        produce_timeout_ms: In Produce: for how long its replicas may be waited for.
        transaction_timeout_ms: In InitProducerId with a transactional id.
        newest: By API the newest version that it knows; it uses that, or the broker's newest where that is older.
    """

    client_id: str
    software_name: str
    produce_timeout_ms: int
    newest: Mapping[ApiKeys, int]
    transaction_timeout_ms: int = 60_000


@dataclass
class ModelParameters:
    """The parameters of one cluster.

    Attributes:
        produce_version, metadata_version, init_producer_id_version, api_versions_version: The highest one announced;
            for InitProducerId None if the broker does not have it.
        has_topic_ids: Whether topics have ids; old clusters answer zeros in the versions of Metadata that could tell.
        max_message_bytes: The largest batch, header included.
        idempotence: How repeated and missing batches are answered.
        hints_leaders: Whether the answer 6 of who really does not lead names the leader (KIP-951).
        log_append_time_topics: Topics whose records get the broker's time, which is `now_ms`.
        auto_create_partitions: How many partitions a topic gets that Metadata asks for and that there is not; 0: none
            is made. The first answer is 3, the next one has it.
        first_producer_id: The next ones follow.
        first_producer_epoch: Of every new id. Kafka's is 0; a high one brings the end of the epochs near.
        knows_all_producers: Whether an id that this cluster did not give is a bug of the client.
        blames_reused_numbers: Whether numbers that stand for stored records and were given to others are a bug of the
            client. Without it the answer is Kafka's: stored, and they are not.
        takes_leader_epochs: Whether a batch may name a leader epoch, which the leader overwrites: librdkafka sends 0.
        addresses: (host, port) by node; by default ("node-0", 9092), ("node-1", 9093), ...
        interference: Who is asked before each answer.
        required_acks: What every Produce request must ask for; None if any will do.
        listener: Who may come in; None if anybody may, without a proof.
        authenticate_version: The highest SaslAuthenticate; lifetimes are told from 1 on.
        producer_expiration_ms: producer.id.expiration.ms: how long a partition knows a producer of which it stores
            nothing; None: for ever.
        witness: Sees each batch.
        transactions: "v1" or "v2" where there are coordinators of transactions, of brokers before Transactions V2 or
            with them; None where nobody may have a transactional id.
        telemetry: What they want of clients' metrics; None where they do not ask.
        may_want_login: Whether brokers announce SASL although anybody may come in.
        client: Who comes; None for anybody.
    """

    produce_version: int = 13
    metadata_version: int = 13
    init_producer_id_version: int | None = 5
    api_versions_version: int = 4
    has_topic_ids: bool = True
    max_message_bytes: int = 1_048_588
    idempotence: Idempotence = KAFKA_4_1
    hints_leaders: bool = True
    log_append_time_topics: frozenset[str] = frozenset()
    auto_create_partitions: int = 0
    first_producer_id: int = 1000
    first_producer_epoch: int = 0
    knows_all_producers: bool = True
    blames_reused_numbers: bool = True
    takes_leader_epochs: bool = False
    addresses: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    interference: Interference = field(default_factory=Interference)
    required_acks: int | None = None
    listener: ModelListener | None = None
    authenticate_version: int = 2
    producer_expiration_ms: int | None = None
    witness: Witness = field(default_factory=Witness)
    client: ModelClient | None = None
    may_want_login: bool = False
    transactions: str | None = None
    telemetry: Wanted | None = None
