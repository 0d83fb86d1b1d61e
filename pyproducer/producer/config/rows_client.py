"""Settings of identity, network, metadata, metrics and telemetry.

Road:    [rows] -> table -> ProducerConfig
Thread:  immutable.
Source:  Java ProducerConfig, CommonClientConfigs (4.1).
"""

from __future__ import annotations

from pyproducer.common.settings.definition import OneOf, Range, Setting, Support, Type

_NOT_NEGATIVE = Range(0)
REBUILD = "rebuild"
"""The value of pyproducer.fork that lets a child process have the producer, too."""
_BUFFER = Range(-1)

CLIENT: tuple[Setting, ...] = (
    # Identity, network, metadata.
    Setting("bootstrap.servers", Type.LIST, (),
            "host:port of brokers for the first contact, several with commas. Required; names are resolved when "
            "connecting, not before."),
    Setting("client.id", Type.STRING, "", "Name sent in each request; empty becomes producer-N."),
    Setting("client.dns.lookup", Type.STRING, "use_all_dns_ips",
            "Try every address of a name, or first replace bootstrap names by their canonical names.",
            OneOf(("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"))),
    Setting("client.rack", Type.STRING, "",
            "The rack, or availability zone, of this client; see partitioner.rack.aware.", since="4.4"),
    Setting("config.providers", Type.LIST, (),
            "Names of what resolves variables such as ${env:NAME} in values (KIP-297); config.providers.NAME.class "
            "says what each is.", since="4.3"),
    Setting("connections.max.idle.ms", Type.LONG, 540000,
            "Close connections unused for so long; below the broker's 10 minutes."),
    Setting("metadata.max.age.ms", Type.LONG, 300000, "Refresh metadata at least so often.", _NOT_NEGATIVE),
    Setting("metadata.max.idle.ms", Type.LONG, 300000, "Forget topics that nothing was sent to for so long.",
            Range(5000)),
    Setting("metadata.recovery.strategy", Type.STRING, "rebootstrap",
            "When no known broker answers: start over from bootstrap.servers, or go on trying.",
            OneOf(("rebootstrap", "none"), is_case_insensitive=True)),
    Setting("metadata.recovery.rebootstrap.trigger.ms", Type.LONG, 300000,
            "Start over from bootstrap.servers when there was no metadata for so long.", _NOT_NEGATIVE),
    Setting("pyproducer.close.timeout.ms", Type.LONG, None,
            "Longest wait of close() without a timeout, and so of the end of a `with` or `async with` block; what is "
            "not acknowledged by then fails, and the log says how much that is. Unset waits until all is done, which "
            "delivery.timeout.ms bounds, as Java's close() does. A service that is to end at SIGTERM sets it below "
            "the time after which it is killed (Kubernetes: 30 s).", _NOT_NEGATIVE, support=Support.OURS),
    Setting("pyproducer.fork", Type.STRING, "refuse",
            "In a forked child process (celery, gunicorn --preload, multiprocessing) the producer refuses every call "
            "(refuse), or is made anew at its first use there (rebuild); records from before the fork stay the "
            "parent's. Not with transactional.id. Differs from Java, where no process forks.",
            OneOf(("refuse", REBUILD)), support=Support.OURS),
    Setting("pyproducer.on.unretrieved", Type.STRING, "log",
            "What to do about failed futures that nobody looked at: count and log them, or have the next flush() or "
            "close() raise a DeliveryFailedError for them. Differs from Java, which has no such setting.",
            OneOf(("log", "raise"), is_case_insensitive=True), support=Support.OURS),
    Setting("pyproducer.prefetch.topics", Type.LIST, (),
            "Topics whose metadata are asked for when the producer starts, so that first records need not wait for "
            "them; brokers that create topics automatically create these. Differs from Java, which has no such "
            "setting.", support=Support.OURS),
    Setting("pyproducer.why.socket", Type.STRING, None,
            "A path at which this process listens on a Unix socket that only its own user may open: `pyproducer why "
            "PATH` asks there where the time of records goes; keys, values and secrets are not told. {pid} in it "
            "stands for the number of the process. Unset, nobody listens.", support=Support.OURS),
    Setting("receive.buffer.bytes", Type.INT, 32768, "SO_RCVBUF; -1 is the system's default.", _BUFFER),
    Setting("send.buffer.bytes", Type.INT, 131072, "SO_SNDBUF; -1 is the system's default.", _BUFFER),
    Setting("reconnect.backoff.ms", Type.LONG, 50,
            "Wait before the first reconnect to a broker; doubles with each failure.", _NOT_NEGATIVE),
    Setting("reconnect.backoff.max.ms", Type.LONG, 1000,
            "Ceiling of the wait before a reconnect. As in Java, it is reconnect.backoff.ms when only that is given.",
            _NOT_NEGATIVE),
    Setting("socket.connection.setup.timeout.ms", Type.LONG, 10000, "Longest wait for the first attempt to connect."),
    Setting("socket.connection.setup.timeout.max.ms", Type.LONG, 30000,
            "Ceiling of that wait, which doubles with each failure."),
    # Metrics and telemetry.
    Setting("enable.metrics.push", Type.BOOLEAN, True, "Let the broker ask this client for telemetry (KIP-714)."),
    Setting("metric.reporters", Type.LIST, ("org.apache.kafka.common.metrics.JmxReporter",),
            "Given all numbers when the producer is made: callables, or classes by name. JMX is only in a JVM.",
            holds_objects=True),
    Setting("metrics.num.samples", Type.INT, 2, "Windows kept for each metric.", Range(1)),
    Setting("metrics.recording.level", Type.STRING, "INFO",
            "How much is measured; all is, at any level.", OneOf(("INFO", "DEBUG", "TRACE")), support=Support.INERT),
    Setting("metrics.sample.window.ms", Type.LONG, 30000, "Length of one window.", _NOT_NEGATIVE),
)
