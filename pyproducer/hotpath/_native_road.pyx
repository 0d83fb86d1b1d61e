# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""send() as one compiled call; what it does is defined by RecordSender in producer/do_send.py.

It runs under the GIL and gives it up only where it calls Python (the slow road, the wake-up), so that looking at a batch
and appending to it is one step for every other thread: no lock of a partition is taken.

Road:    send() -> [FastRoad] -> OpenBatch
Thread:  any caller.
Source:  ours.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.list cimport PyList_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyCallable_Check, PyObject
from cpython.tuple cimport PyTuple_Check, PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_CheckExact, PyUnicode_GET_LENGTH
from libc.stdint cimport int64_t, uint8_t

from pyproducer.hotpath._native cimport HEADER_BYTES, OVERHEAD_BYTES, OpenBatch, hash_key

cdef extern from "time.h" nogil:
    ctypedef long time_t
    cdef struct timespec:
        time_t tv_sec
        long tv_nsec
    int clock_gettime(int clock, timespec *now)
    int CLOCK_REALTIME

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1

cdef enum:
    # metadata.max.idle.ms is minutes, so a topic in use is reported once a second; see do_send.py.
    TOUCH_INTERVAL_MS = 1000


cdef class Route:
    """What the fast road knows of one topic: its open batches by partition, and how keyless records are spread.

    `count` is the highest index and one more. Partitions between may be missing: they never have an open batch, and
    `begin` waits for them.
    """

    cdef Py_ssize_t count
    cdef int64_t touched_ms
    cdef list open_batches
    cdef object counter
    cdef tuple available

    def __init__(self, Py_ssize_t count, int64_t touched_ms, counter, tuple available):
        self.count = count
        self.touched_ms = touched_ms
        self.open_batches = [None] * count
        self.counter = counter
        self.available = available


cdef class FastRoad:
    """send() as one call: bytes or None in, DefaultPartitioner or a given partition, an open batch with room.

    The first record of a batch goes to `begin`, which opens it and announces it here, everything else to `slow`,
    RecordSender.send.

    Args:
        slow: What does the whole of send(); called with the same arguments.
        begin: What opens a batch for a record of which the rest is known: RecordSender.begin_batch.
        metadata: Its `_cluster` is the snapshot that the routes belong to.
        max_record_bytes: Records above it are the slow road's to refuse.
        wakeup: Wakes the sender; called when a batch is full.
        record_class: ProducerRecord, whose parts were checked when it was made.
    """

    cdef object slow
    cdef object begin
    cdef dict metadata_fields
    cdef object wakeup
    cdef type record_class
    cdef object cluster
    cdef dict routes
    cdef Py_ssize_t max_record_bytes
    cdef public bint is_closed

    def __init__(self, slow, begin, metadata, Py_ssize_t max_record_bytes, wakeup, type record_class):
        self.slow = slow
        self.begin = begin
        # Its dict, because one look-up in a dict is a third of an attribute's; the producer's metadata lives as long.
        self.metadata_fields = metadata.__dict__
        self.max_record_bytes = max_record_bytes
        self.wakeup = wakeup
        self.record_class = record_class
        self.routes = {}
        self.is_closed = False

    def knows(self, cluster, str topic):
        """Whether a topic of this snapshot was learned."""
        return cluster is self.cluster and topic in self.routes

    def begin_topic(self, cluster, str topic, Py_ssize_t count, int64_t touched_ms, counter, tuple available):
        """Learn a topic, or that it was reported as in use; forgets all topics of an older snapshot."""
        cdef Route route
        if cluster is not self.cluster:
            self.routes = {}
            self.cluster = cluster
        route = self.routes.get(topic)
        if route is None:
            # Without a partition to choose, which no snapshot says of a topic that it knows, there is no route.
            if count > 0 and (counter is None or available):
                self.routes[topic] = Route(count, touched_ms, counter, available)
        else:
            route.touched_ms = touched_ms

    def open_batch(self, str topic, Py_ssize_t partition, OpenBatch batch not None):
        """Learn the batch that takes a partition's next records."""
        cdef Route route = self.routes.get(topic)
        if route is not None and 0 <= partition < route.count:
            route.open_batches[partition] = batch

    def send(self, topic, value=None, *, key=None, partition=None, timestamp=None, headers=None, on_completion=None):
        """Hand over one record: see ProducerBase.send."""
        return self.hand_over(topic, value, key, partition, timestamp, headers, on_completion)

    cdef object hand_over(self, topic, value, key, partition, timestamp, headers, on_completion):
        cdef object record
        if type(topic) is self.record_class and key is None and partition is None and timestamp is None and (
                headers is None and (value is None or on_completion is None)):
            # What was checked when the record was made is what lies in it.
            record = topic
            future = self.take(record.topic, record.value, record.key, record.partition, record.timestamp,
                               record.headers, on_completion if value is None else value)
            return future if future is not None else self.slow(record, value, on_completion=on_completion)
        future = self.take(topic, value, key, partition, timestamp, headers, on_completion)
        return future if future is not None else self.slow(
            topic, value, key=key, partition=partition, timestamp=timestamp, headers=headers,
            on_completion=on_completion)

    cdef object take(self, topic, value, key, partition, timestamp, headers, on_completion):
        """Append a record, or open a batch for it; None where the slow road must look at it."""
        cdef Route route
        cdef OpenBatch batch
        cdef PyObject *found
        cdef Py_ssize_t index, size
        cdef int64_t now_ms, created_ms
        cdef timespec now
        cdef int overflow = 0
        if not (not self.is_closed and PyUnicode_CheckExact(topic)
                and (value is None or PyBytes_CheckExact(value)) and (key is None or PyBytes_CheckExact(key))
                and (on_completion is None or PyCallable_Check(on_completion))
                and PyDict_GetItem(self.metadata_fields, "_cluster") is <PyObject *>self.cluster):
            return None
        found = PyDict_GetItem(self.routes, topic)
        if found is NULL:
            return None
        route = <Route><object>found
        clock_gettime(CLOCK_REALTIME, &now)
        now_ms = <int64_t>now.tv_sec * 1000 + now.tv_nsec // 1000000
        size = HEADER_BYTES + OVERHEAD_BYTES
        if key is not None:
            size += PyBytes_GET_SIZE(key)
        if value is not None:
            size += PyBytes_GET_SIZE(value)
        if headers is not None:
            if not headers:
                headers = None
            else:
                if not PyTuple_CheckExact(headers):
                    if not PyList_CheckExact(headers):
                        return None
                    headers = tuple(<list>headers)
                for header in <tuple>headers:
                    if not PyTuple_Check(header) or PyTuple_GET_SIZE(header) != 2:
                        return None
                    found = PyTuple_GET_ITEM(header, 0)
                    if not PyUnicode_CheckExact(<object>found):
                        return None
                    size += 10 + 4 * PyUnicode_GET_LENGTH(<object>found)
                    found = PyTuple_GET_ITEM(header, 1)
                    if <object>found is not None:
                        if not PyBytes_CheckExact(<object>found):
                            return None
                        size += PyBytes_GET_SIZE(<object>found)
        if not (size <= self.max_record_bytes and -TOUCH_INTERVAL_MS < now_ms - route.touched_ms < TOUCH_INTERVAL_MS):
            return None
        created_ms = now_ms
        if timestamp is not None:
            if not PyLong_CheckExact(timestamp):
                return None
            created_ms = PyLong_AsLongLongAndOverflow(timestamp, &overflow)
            if overflow or created_ms < 0:
                return None
        if partition is not None:
            if not PyLong_CheckExact(partition):
                return None
            index = PyLong_AsLongLongAndOverflow(partition, &overflow)
            if overflow or not 0 <= index < route.count:
                return None
        elif key is not None:
            index = (hash_key(<const uint8_t *>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))
                     & 0x7FFFFFFF) % route.count
        elif route.counter is None:
            return None
        else:
            index = <Py_ssize_t>((<object>next(route.counter)) & 0x7FFFFFFF)
            index = route.available[index % len(route.available)]
        # Partitions are numbered by brokers: what they say must not decide where we read.
        if not 0 <= index < route.count:
            return None
        if route.open_batches[index] is not None:
            batch = <OpenBatch>route.open_batches[index]
            future = batch.add(created_ms, <bytes>key, <bytes>value, headers, on_completion)
            if future is not None:
                if batch.used >= batch.write_limit_bytes:
                    self.wakeup()
                return future
            route.open_batches[index] = None
        return self.begin(topic, index, created_ms, key, value, headers, on_completion, size, self.cluster, now_ms)


cdef class ProducerBase:
    """What KafkaProducer inherits: send(), compiled; see ProducerBase in _python.py, which is the definition."""

    cdef FastRoad fast_road
    cdef object slow
    cdef object __weakref__

    def _pave(self, slow, fast_road):
        """Say where records go: to the compiled road where there is one, else to `slow`."""
        self.slow = slow
        self.fast_road = fast_road

    def send(self, topic, value=None, *, key=None, partition=None, timestamp=None, headers=None, on_completion=None):
        """Hand over one record: `send(record, on_completion)`, or its parts: `send(topic, value, key=...)`.

        Blocks up to max.block.ms while the topic's metadata is not known or buffer.memory is exhausted; never waits for
        the broker's answer.

        Args:
            topic: A ProducerRecord, or the topic's name.
            value: The value; with a ProducerRecord, `on_completion` may stand here.
            key: The key, or None.
            partition: Index of the partition, or None to let the partitioner choose.
            timestamp: Epoch ms, or None for now.
            headers: Pairs of str and bytes or None.
            on_completion: Called as `on_completion(metadata, exception)`, one of them None; see the class for
                where.

        Returns:
            The future of the record. Timeouts of metadata and memory, and whatever the broker says, go to it.

        Raises:
            SerializationError: A serializer failed, or there is none and the data are not bytes. Not sent.
            RecordTooLargeError: Above max.request.size or buffer.memory. Not sent.
            TypeError: A part has the wrong type. Not sent.
            ValueError: A part is out of range. Not sent.
            ProducerClosedError: The producer is closed. Not sent.
            ProducerDeadError: The producer's thread ended by an error. Not sent.
            ForkedProducerError: The producer was made before this process was forked. Not sent.
        """
        if self.fast_road is not None:
            return self.fast_road.hand_over(topic, value, key, partition, timestamp, headers, on_completion)
        if self.slow is None:
            raise RuntimeError("this producer was never made: its __init__ did not run, or raised")
        return self.slow(topic, value, key=key, partition=partition, timestamp=timestamp, headers=headers,
                         on_completion=on_completion)
