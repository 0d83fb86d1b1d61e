"""Settings of delivery, batching, memory, serializers, partitioning and transactions.

Road:    [rows] -> table -> ProducerConfig
Thread:  immutable.
Source:  Java ProducerConfig (4.1).
"""

from __future__ import annotations

from pyproducer.common.settings.definition import NonEmpty, OneOf, Range, Setting, Type

MAX_INT = 2**31 - 1
_NOT_NEGATIVE = Range(0)

DELIVERY: tuple[Setting, ...] = (
    # Core delivery, batching, memory.
    Setting("acks", Type.STRING, "all",
            "Who must confirm a write: 0 nobody, 1 the leader, all (or -1) every in-sync replica.",
            OneOf(("all", "-1", "0", "1"))),
    Setting("batch.size", Type.INT, 16384,
            "Byte ceiling of one partition's batch before compression; 0 sends each record alone. Where it is not set, "
            "a batch that waits behind another one of its partition may grow up to 256 KiB; where it is set, until it "
            "is estimated to be so large compressed, four times of it at most.", _NOT_NEGATIVE),
    Setting("buffer.memory", Type.LONG, 33554432,
            "Bytes of all records that wait or are in flight, with their futures; send() blocks when they are used up.",
            _NOT_NEGATIVE),
    Setting("compression.type", Type.STRING, "none", "Codec of each batch.",
            OneOf(("none", "gzip", "snappy", "lz4", "zstd"))),
    Setting("compression.gzip.level", Type.INT, -1, "Effort of gzip; -1 is zlib's own default.",
            Range(1, 9, also=(-1,))),
    Setting("compression.lz4.level", Type.INT, 9,
            "Effort of lz4. As in Java, 9 means the fast compressor and every other value the slow one.",
            Range(1, 17)),
    Setting("compression.zstd.level", Type.INT, 3, "Effort of zstd.", Range(-131072, 22)),
    Setting("delivery.timeout.ms", Type.INT, 120000,
            "Longest time from send() to success or failure, retries included; at least linger.ms + "
            "request.timeout.ms.", _NOT_NEGATIVE),
    Setting("enable.idempotence", Type.BOOLEAN, True,
            "Number the batches, so that retries neither duplicate nor reorder."),
    Setting("linger.ms", Type.LONG, 5, "How long a batch that is not full waits for more records.", _NOT_NEGATIVE),
    Setting("max.block.ms", Type.LONG, 60000,
            "Longest wait of a record for memory, inside send(), and for metadata, after it; of partitions_for() for "
            "metadata. Differs from Java: send() itself does not wait for metadata.", _NOT_NEGATIVE),
    Setting("max.in.flight.requests.per.connection", Type.INT, 5,
            "Unanswered requests per broker; at most 5 with idempotence.", Range(1)),
    Setting("max.request.size", Type.INT, 1048576,
            "Byte ceiling of one produce request, and of one record before compression.", _NOT_NEGATIVE),
    Setting("request.timeout.ms", Type.INT, 30000,
            "Longest wait for one response; then the connection is closed and the request retried.", _NOT_NEGATIVE),
    Setting("retries", Type.INT, MAX_INT,
            "How often a batch is sent again; delivery.timeout.ms bounds the time anyway.", Range(0, MAX_INT)),
    Setting("retry.backoff.ms", Type.LONG, 100,
            "Wait before the first retry; it doubles with each, with 20 % jitter.", _NOT_NEGATIVE),
    Setting("retry.backoff.max.ms", Type.LONG, 1000, "Ceiling of the wait before a retry.", _NOT_NEGATIVE),
    # Serializers, partitioning, interceptors.
    Setting("key.serializer", Type.CLASS, None,
            "Turns keys into bytes: a callable, a Serializer, a short name or a Java class name. Differs from Java: "
            "optional, bytes pass through."),
    Setting("value.serializer", Type.CLASS, None, "Turns values into bytes; see key.serializer."),
    Setting("interceptor.classes", Type.LIST, (),
            "Interceptors in order: instances, classes, or names as 'module:Class'.", holds_objects=True),
    Setting("partitioner.class", Type.CLASS, None,
            "Chooses the partition of a record that names none: a short name, a Java class name, a Partitioner, or a "
            "callable. Unset is DefaultPartitioner: murmur2 of the key, or round-robin; with "
            "partitioner.ignore.keys it is UniformStickyPartitioner."),
    Setting("partitioner.adaptive.partitioning.enable", Type.BOOLEAN, True,
            "UniformStickyPartitioner gives more records to partitions with short queues."),
    Setting("partitioner.availability.timeout.ms", Type.LONG, 0,
            "UniformStickyPartitioner skips partitions whose broker took nothing for so long; 0 never skips.",
            _NOT_NEGATIVE),
    Setting("partitioner.ignore.keys", Type.BOOLEAN, False,
            "UniformStickyPartitioner, which is used then where partitioner.class is unset, spreads records with keys "
            "as those without."),
    Setting("partitioner.rack.aware", Type.BOOLEAN, False,
            "A record without a key goes to a partition whose leader is in client.rack, if there is one (KIP-1123); "
            "DefaultPartitioner and UniformStickyPartitioner.", since="4.4"),
    # Transactions.
    Setting("transactional.id", Type.STRING, None,
            "Identity that outlives the process: fences zombies and enables transactions.", NonEmpty()),
    Setting("transaction.timeout.ms", Type.INT, 60000,
            "The coordinator aborts a transaction that is open for longer."),
    Setting("transaction.two.phase.commit.enable", Type.BOOLEAN, False,
            "Take part in two-phase commit: transactions do not time out."),
)
