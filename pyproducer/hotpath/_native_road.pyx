# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: freethreading_compatible=True
"""The compiled twin of _python_road.py, which is the definition: the whole of send().

It runs under the GIL and gives it up only where it calls Python (serializers, upcalls), so that looking at a batch and
appending to it is one step for every other thread: no lock of a partition is taken. Where there is no GIL, critical
sections (nothing where there is one) guard each look at a route, and the batch has a lock. Only what opens a batch,
waits or fails goes to the upcalls.

Road:    [application] -> send() -> [gate, interceptors, serializers, size, partition] -> OpenBatch
Thread:  any caller.
Source:  _python_road.py; Java KafkaProducer.doSend (4.1).
"""

import inspect
from _thread import get_ident
from functools import partial
from zlib import crc32

from pyproducer.hotpath._native import FutureRecordMetadata

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem, PyDict_Size
from cpython.list cimport PyList_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.method cimport PyMethod_Check, PyMethod_GET_FUNCTION
from cpython.object cimport PyCallable_Check, PyObject, PyTypeObject
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8String, PyUnicode_CheckExact, PyUnicode_GET_LENGTH
from libc.stdint cimport int64_t, uint8_t, uint32_t, uintptr_t

from pyproducer.hotpath._native cimport HEADER_BYTES, OVERHEAD_BYTES, OpenBatch, hash_key, is_pair

cdef extern from "time.h" nogil:
    ctypedef long time_t
    cdef struct timespec:
        time_t tv_sec
        long tv_nsec
    int clock_gettime(int clock, timespec *now)
    int CLOCK_REALTIME

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident()

cdef extern from "Python.h":
    bint PyFunction_Check(object thing)
    bint PyUnicode_IS_ASCII(object text)
    PyObject *PyFunction_GET_CODE(object function)
    PyTypeObject *Py_TYPE(object thing)
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1

cdef enum:
    FORM_AS_IS = 0
    FORM_TEXT = 1
    FORM_CALLED = 2
    BY_MURMUR2 = 1
    BY_CRC32 = 2
    POSITIVE_MASK = 0x7FFFFFFF
    MOST_PARTITION = 0x7FFFFFFF
    KNOWN_CALLBACKS = 16
    OF_A_TYPE = 15

AS_IS, TEXT, CALLED = 0, 1, 2
NO_HASH, MURMUR2, CRC32 = 0, 1, 2


@cython.auto_pickle(False)
cdef class RecordParts:
    """The fields of a ProducerRecord, written once; see _python_road.py."""

    cdef readonly object topic
    cdef readonly object value
    cdef readonly object key
    cdef readonly object partition
    cdef readonly object timestamp
    cdef readonly object headers

    def __init__(self, topic, value=None, key=None, *, partition=None, timestamp=None, headers=None):
        if (headers is None or is_empty_tuple(headers)) and PyUnicode_CheckExact(topic) and PyUnicode_GET_LENGTH(topic) and (
                is_plain_partition(partition) and is_plain_timestamp(timestamp)):
            headers = ()
        else:
            topic, partition, timestamp, headers = self._checked(topic, partition, timestamp, headers)
        self.topic = topic
        self.value = value
        self.key = key
        self.partition = partition
        self.timestamp = timestamp
        self.headers = headers


cdef class StickyPartition:
    """The partition that a topic's records without key go to for now, and how many bytes it got."""

    cdef readonly int64_t limit_bytes
    cdef readonly int64_t partition
    cdef readonly int64_t produced_bytes

    def __init__(self, int64_t limit_bytes):
        self.limit_bytes = limit_bytes
        self.partition = -1

    cpdef bint add(self, int64_t partition, int64_t size_bytes, bint can_switch):
        """Count bytes that were appended; whether it is another partition's turn."""
        with cython.critical_section(self):
            if partition != self.partition:
                return False
            self.produced_bytes += size_bytes
            return self.produced_bytes >= self.limit_bytes and (
                can_switch or self.produced_bytes >= 2 * self.limit_bytes)

    def switch_to(self, int64_t partition):
        """Go on with another partition, of which nothing is counted yet."""
        with cython.critical_section(self):
            self.partition = partition
            self.produced_bytes = 0


cdef class Route:
    """What send() knows of one topic, as of one snapshot; besides the definition's fields its open batches."""

    cdef readonly Py_ssize_t count
    cdef readonly int key_hash
    cdef readonly object turns
    cdef readonly tuple available
    cdef readonly StickyPartition sticky
    cdef public bint is_used
    cdef list open_batches

    def __init__(self, Py_ssize_t count, int key_hash, turns=None, tuple available=(),
                 StickyPartition sticky=None):
        if count < 1 or (turns is not None and not available):
            raise ValueError(f"a route to {count} partitions, {len(available)} of them available, leads nowhere")
        self.count = count
        self.key_hash = key_hash
        self.turns = turns
        self.available = available
        self.sticky = sticky
        # Partitions that are missing never have an open batch.
        self.open_batches = [None] * count


cdef inline object batch_at(Route route, Py_ssize_t index):
    """Return the open batch of a partition that the route has, or None."""
    with cython.critical_section(route):
        return route.open_batches[index]


cdef inline int put_batch(Route route, Py_ssize_t index, batch, was) except -1:
    """Say which batch takes records, where it is still the one that the caller saw; `was` may be anything: NotImplemented."""
    with cython.critical_section(route):
        if was is NotImplemented or route.open_batches[index] is was:
            route.open_batches[index] = batch
    return 0


cdef inline object route_in(RouteTable table, topic):
    """Return a topic's route, or None."""
    cdef PyObject *found
    with cython.critical_section(table):
        found = PyDict_GetItem(table.by_topic, topic)
        return None if found is NULL else <object>found


cdef class RouteTable:
    """The routes of the present snapshot; see _python_road.py."""

    keeps_batches = True

    cdef object snapshot  # cluster, and
    cdef dict by_topic  # routes: both are replaced while others read them
    cdef set used

    def __init__(self):
        self.by_topic = {}
        self.used = set()

    @property
    @cython.critical_section
    def cluster(self):
        return self.snapshot

    @property
    @cython.critical_section
    def routes(self):
        return self.by_topic

    @cython.critical_section
    def renew(self, cluster):
        """Take in a snapshot."""
        cdef dict gone = self.by_topic
        for topic, route in gone.items():
            if (<Route>route).is_used:
                self.used.add(topic)
        self.snapshot = cluster
        self.by_topic = {}

    @cython.critical_section
    def add(self, cluster, str topic, Route route not None):
        """Keep a route, if the snapshot that it was made of is the present one."""
        if self.snapshot is cluster:
            self.by_topic[topic] = route

    @cython.critical_section
    def forget(self, str topic):
        """Drop a topic's route: the next record looks for another."""
        cdef Route route = self.by_topic.pop(topic, None)
        if route is not None and route.is_used:
            self.used.add(topic)

    @cython.critical_section
    def open_batch(self, cluster, str topic, Py_ssize_t partition, OpenBatch batch not None):
        """Say which batch takes a partition's next records, if the snapshot it was chosen by is the present one."""
        cdef Route route = self.by_topic.get(topic)
        if self.snapshot is cluster and route is not None and 0 <= partition < route.count:
            put_batch(route, partition, batch, NotImplemented)

    @cython.critical_section
    def take_used(self):
        """Return the topics that records were sent to since the last call."""
        cdef set used = self.used
        self.used = set()
        for topic, route in self.by_topic.items():
            if (<Route>route).is_used:
                (<Route>route).is_used = False
                used.add(topic)
        return used


cdef class Acknowledgement:
    """What a record's future calls when interceptors are told of its outcome, too: them first."""

    cdef readonly object tell
    cdef readonly object on_completion

    def __init__(self, tell, on_completion):
        self.tell = tell
        self.on_completion = on_completion

    def __call__(self, metadata, exception):
        try:
            self.tell(metadata, exception)
        finally:
            if self.on_completion is not None:
                self.on_completion(metadata, exception)


cdef class Road:
    """send(), from its arguments to a batch; see _python_road.py."""

    cdef object closed_gate  # `gate`, which close() sets beside callers
    cdef object upcalls
    cdef RouteTable routes
    cdef type record_class
    cdef Py_ssize_t max_record_bytes
    cdef int key_form
    cdef int value_form
    cdef bint is_intercepted
    cdef object timestamp_ms
    cdef dict inside
    # Of callbacks: what `upcalls` had nothing against, and how many arguments come before ours, as one number; and what
    # keeps its address its own.
    cdef uintptr_t known[KNOWN_CALLBACKS]
    cdef list known_owners

    def __init__(self, upcalls, RouteTable routes not None, *, type record_class, Py_ssize_t max_record_bytes,
                 int key_form, int value_form, bint is_intercepted, timestamp_ms=None, dict inside=None):
        self.upcalls = upcalls
        self.routes = routes
        self.record_class = record_class
        self.max_record_bytes = max_record_bytes
        self.key_form = key_form
        self.value_form = value_form
        self.is_intercepted = is_intercepted
        self.timestamp_ms = timestamp_ms
        self.inside = {} if inside is None else inside
        self.known_owners = [None] * KNOWN_CALLBACKS

    @property
    def gate(self):
        with cython.critical_section(self):
            return self.closed_gate

    @gate.setter
    def gate(self, gate):
        with cython.critical_section(self):
            self.closed_gate = gate

    def send(self, topic, value=None, key=None, partition=None, timestamp=None, headers=None, on_completion=None):
        """Take a record or its parts; see ProducerBase.send."""
        return self.take(topic, value, key, partition, timestamp, headers, on_completion)

    cdef object take(self, topic, value, key, partition, timestamp, headers, on_completion):
        cdef RecordParts record = None
        cdef object key_bytes, value_bytes, pairs
        if self.closed_gate is not None:
            successor = self.gate()
            if successor is not None:
                return (<Road?>successor).take(topic, value, key, partition, timestamp, headers, on_completion)
        if PyDict_Size(self.inside) and get_ident() in self.inside:
            self.upcalls.ensure_outside()
        if PyUnicode_CheckExact(topic) and PyUnicode_GET_LENGTH(topic):
            pairs = () if headers is None else plain_headers(headers)
            if pairs is not None and is_plain_partition(partition) and is_plain_timestamp(timestamp) and (
                    on_completion is None or self.is_taken(on_completion)):
                headers = pairs
            else:
                record, on_completion = self.upcalls.checked(topic, value, key, partition, timestamp, headers,
                                                             on_completion)
        elif type(topic) is self.record_class and (<RecordParts?>topic).topic is not None and key is None and partition is None and timestamp is None and (
                headers is None) and (value is None or (on_completion is None and self.is_taken(value))) and (
                on_completion is None or self.is_taken(on_completion)):
            record = <RecordParts>topic
            if value is not None:
                on_completion = value
        else:
            record, on_completion = self.upcalls.checked(topic, value, key, partition, timestamp, headers,
                                                         on_completion)
        if self.is_intercepted:
            if record is None:
                record = self.record_class(topic, value, key, partition=partition, timestamp=timestamp,
                                           headers=headers)
            record, on_completion = self.upcalls.intercept(record, on_completion)
        if record is not None:
            topic, value, key = record.topic, record.value, record.key
            partition, timestamp, headers = record.partition, record.timestamp, record.headers
        try:
            key_bytes = plain_bytes(key, self.key_form)
            value_bytes = plain_bytes(value, self.value_form)
            if key_bytes is NotImplemented or value_bytes is NotImplemented:
                key_bytes, value_bytes, headers = self.upcalls.serialize(topic, headers, key, value)
            return self.send_serialized(topic, partition, timestamp, key, key_bytes, value, value_bytes, headers,
                                        on_completion)
        except Exception as error:
            return self.upcalls.failed(error, topic, partition, on_completion)

    def foreign(self, tuple more, dict named):
        """Return the error for arguments that send() does not have, by position or by name."""
        return self.upcalls.foreign(2 + len(more), next(iter(named), ""))

    def takes(self, callback):
        """Whether a callback can be called; see `is_taken`."""
        return self.is_taken(callback)

    cdef bint is_taken(self, callback) except -1:
        """Whether a callback can be called; `upcalls` looks once at its code, or its type, and may refuse it."""
        cdef Py_ssize_t given_count = 0
        cdef PyObject *owner = owner_of(callback, &given_count)
        cdef uintptr_t sign = (<uintptr_t>owner << 4) | <uintptr_t>given_count
        cdef Py_ssize_t place = ((sign >> 8) ^ (sign >> 13) ^ sign) & (KNOWN_CALLBACKS - 1)
        if owner is not NULL and self.known[place] == sign:
            return True
        if not PyCallable_Check(callback):
            return False
        kept = None if owner is NULL else <object>owner
        if self.upcalls.ensure_callback(callback) and kept is not None:
            with cython.critical_section(self):
                self.known[place] = 0  # first: another may get the address of what goes
                self.known_owners[place] = kept
                self.known[place] = sign
        return True

    cdef object send_serialized(self, topic, partition, timestamp, key, key_bytes, value, value_bytes, headers,
                                on_completion):
        cdef Route route
        cdef PyObject *found
        cdef Py_ssize_t index, size, headers_bound = 0
        cdef int64_t created_ms
        cdef timespec now
        cdef bint is_full
        if timestamp is not None:
            created_ms = timestamp
        elif self.timestamp_ms is not None:
            created_ms = self.timestamp_ms()
        else:
            clock_gettime(CLOCK_REALTIME, &now)
            created_ms = <int64_t>now.tv_sec * 1000 + now.tv_nsec // 1000000
        size = HEADER_BYTES + OVERHEAD_BYTES
        if key_bytes is not None:
            size += PyBytes_GET_SIZE(key_bytes)
        if value_bytes is not None:
            size += PyBytes_GET_SIZE(value_bytes)
        if headers:
            # Checked before they came here, and once more: nothing else may be read as a pair.
            for header in <tuple?>headers:
                if not is_pair(header):
                    raise TypeError(f"a header must be a pair (str, bytes or None), got {header!r}")
                found = PyTuple_GET_ITEM(header, 0)
                headers_bound += 10 + 4 * len(<str><object>found)
                found = PyTuple_GET_ITEM(header, 1)
                if <object>found is not None:
                    headers_bound += len(<bytes><object>found)
            size += headers_bound
        else:
            headers = None
        if size > self.max_record_bytes:
            raise self.upcalls.too_large(topic, size)
        made = route_in(self.routes, topic)
        if made is None:
            made = self.upcalls.find_route(topic)
        index = -1 if partition is None else partition
        if made is None or index >= (<Route?>made).count or (index < 0 and partition is not None):
            return self.upcalls.await_topic(topic, partition, created_ms, key, key_bytes, value, value_bytes,
                                            () if headers is None else headers, on_completion, size)
        route = <Route>made
        route.is_used = True
        if index >= 0:
            pass
        elif key_bytes is not None and route.key_hash == BY_MURMUR2:
            index = (hash_key(<const uint8_t *>PyBytes_AS_STRING(key_bytes), PyBytes_GET_SIZE(key_bytes))
                     & POSITIVE_MASK) % route.count
        elif key_bytes is not None and route.key_hash == BY_CRC32 and PyBytes_GET_SIZE(key_bytes):
            index = <Py_ssize_t>(<uint32_t>crc32(key_bytes) % <uint32_t>route.count)
        elif route.turns is not None:
            index = <Py_ssize_t>((<object>next(route.turns)) & POSITIVE_MASK)
            index = route.available[index % len(route.available)]
        elif route.sticky is not None and 0 <= route.sticky.partition < route.count:
            index = route.sticky.partition
        else:
            index = self.upcalls.choose(topic, key, key_bytes, value, value_bytes)
            if index < 0:
                return self.upcalls.await_topic(topic, None, created_ms, key, key_bytes, value, value_bytes,
                                                () if headers is None else headers, on_completion, size)
        # Partitions are numbered by brokers: what they say must not decide where we read.
        opened = batch_at(route, index) if 0 <= index < route.count else None
        if opened is not None:
            future = (<OpenBatch>opened).add(created_ms, <bytes>key_bytes, <bytes>value_bytes, headers, headers_bound,
                                             on_completion)
            if future is not None:
                is_full = (<OpenBatch>opened).used >= (<OpenBatch>opened).write_limit_bytes
                if is_full:
                    self.upcalls.wakeup()
                if route.sticky is not None and route.sticky.add(index, size - HEADER_BYTES, is_full):
                    self.upcalls.switch(topic)
                return future
            put_batch(route, index, None, opened)
        return self.upcalls.append(topic, index, created_ms, key_bytes, value_bytes, () if headers is None else headers,
                                   on_completion, size)


cdef inline PyObject *owner_of(callback, Py_ssize_t *given_count) except? NULL:
    """Return what decides how a callback is called, its code or else its type; and how many arguments it is given."""
    if PyFunction_Check(callback):
        return PyFunction_GET_CODE(callback)
    if type(callback) is partial:
        given_count[0] = len(callback.args)
        callback = callback.func
    elif not PyMethod_Check(callback):
        given_count[0] = OF_A_TYPE
        return <PyObject *>Py_TYPE(callback)
    if PyMethod_Check(callback):
        given_count[0] += 1
        callback = <object>PyMethod_GET_FUNCTION(callback)
    if given_count[0] >= OF_A_TYPE or not PyFunction_Check(callback):
        return NULL
    return PyFunction_GET_CODE(callback)


cdef bint is_empty_tuple(thing):
    return PyTuple_CheckExact(thing) and PyTuple_GET_SIZE(thing) == 0


cdef object plain_headers(headers):
    """Return headers as a tuple where they are pairs of exactly str and bytes or None; else None."""
    cdef tuple pairs
    cdef object header, value
    if PyTuple_CheckExact(headers):
        pairs = <tuple>headers
    elif PyList_CheckExact(headers):
        pairs = tuple(<list>headers)
    else:
        return None
    for header in pairs:
        if not is_pair(header):
            return None
        if not PyUnicode_CheckExact(<object>PyTuple_GET_ITEM(header, 0)):
            return None
        if not PyUnicode_IS_ASCII(<object>PyTuple_GET_ITEM(header, 0)):  # it may have no UTF-8: who says so looks
            return None
        value = <object>PyTuple_GET_ITEM(header, 1)
        if value is not None and not PyBytes_CheckExact(value):
            return None
    return pairs


cdef bint is_plain_partition(partition) except -1:
    cdef int overflow = 0
    if partition is None:
        return True
    return PyLong_CheckExact(partition) and 0 <= PyLong_AsLongLongAndOverflow(partition, &overflow) <= MOST_PARTITION


cdef bint is_plain_timestamp(timestamp) except -1:
    cdef int overflow = 0
    cdef long long number
    if timestamp is None:
        return True
    if not PyLong_CheckExact(timestamp):
        return False
    number = PyLong_AsLongLongAndOverflow(timestamp, &overflow)
    return number >= 10_000_000_000 or 0 <= number < 1_000_000_000  # between them are seconds


cdef object plain_bytes(data, int form):
    """Return the bytes of a key or value where nobody need be called for them, else NotImplemented."""
    if data is None:
        return None if form != FORM_CALLED else NotImplemented
    if form == FORM_AS_IS and PyBytes_CheckExact(data):
        return data
    if form == FORM_TEXT and PyUnicode_CheckExact(data):
        try:
            return PyUnicode_AsUTF8String(data)
        except UnicodeEncodeError:
            return NotImplemented
    return NotImplemented


@cython.auto_pickle(False)  # nor a __setstate__, which a subclass would inherit
cdef class ProducerBase:
    """What KafkaProducer inherits: send(), compiled; see ProducerBase in _python_road.py, which is the definition."""

    cdef Road road
    cdef object __weakref__

    def _pave(self, Road road not None):
        """Say where records go."""
        self.road = road

    def send(self, topic, value=None, *more, key=None, partition=None, timestamp=None, headers=None,
             on_completion=None, **foreign):
        """Hand over one record: `send(record, on_completion)`, or its parts: `send(topic, value, key=...)`.

        Blocks up to max.block.ms while buffer.memory is exhausted; never waits for a broker. A record whose topic, or
        partition, is not known yet waits for it after the call, up to max.block.ms, and later ones behind it; its
        partitioner runs on the producer's own thread then, and what that raises goes to the future. A quarter of
        buffer.memory at most is for such records.

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
            IllegalStateError: It has a transactional.id, and no transaction is open. Not sent.
            AbortableTransactionError: The transaction has to be aborted. Not sent.
            FatalProducerError: The producer can only be closed. Not sent.
        """
        # Called by way of the class, `self` may be anything: compiled code does not look.
        if not isinstance(self, ProducerBase) or self.road is None:
            raise RuntimeError("this producer was never made: its __init__ did not run, or raised")
        if more or foreign:
            raise self.road.foreign(more, foreign)
        return self.road.take(topic, value, key, partition, timestamp, headers, on_completion)


def _own_signature(send):
    """Return the signature without what is there to be refused."""
    signature = inspect.signature(send)
    return signature.replace(parameters=[parameter for name, parameter in signature.parameters.items()
                                         if name not in ("more", "foreign")])


ProducerBase.send.__signature__ = _own_signature(ProducerBase.send)


@cython.auto_pickle(False)
cdef class AsyncProducerBase:
    """What AsyncKafkaProducer inherits, compiled; see AsyncProducerBase in _python_road.py, which is the definition."""

    cdef Road road
    cdef object line
    cdef object loop_side
    cdef object loop_runs
    cdef object __weakref__

    def _pave(self, Road road not None, line):
        """Say where records go, and what has something in it where tasks wait for memory."""
        self.road = road
        self.line = line
        self.loop_side = None  # until it enters a loop

    def _enter_loop(self, loop_side, loop_runs):
        """Belong to a loop."""
        self.loop_runs = loop_runs
        self.loop_side = loop_side

    def _is_bound(self):
        """Whether the loop that it belongs to runs in this thread."""
        return self.is_at_home()

    cdef bint is_at_home(self) except -1:
        if self.loop_side is None:
            return False
        cdef unsigned long ident = self.loop_side.ident
        return ident == PyThread_get_thread_ident() and self.loop_runs()

    def _foreign(self, tuple more, dict named):
        """Return the error for arguments that there are none of."""
        return self.road.foreign(more, named)

    def _send_at_once(self, topic, value, key, partition, timestamp, headers, on_completion):
        """Hand a record over, if it is plain; else return None."""
        return self.at_once(topic, value, key, partition, timestamp, headers, on_completion)

    cdef object at_once(self, topic, value, key, partition, timestamp, headers, on_completion):
        if not self.is_at_home() or on_completion is not None or self.line:
            return None
        if not PyUnicode_CheckExact(topic) and (value is not None or type(topic) is not self.road.record_class):
            return None
        return self.road.take(topic, value, key, partition, timestamp, headers, None)

    def send_nowait(self, topic, value=None, *more, key=None, partition=None, timestamp=None, headers=None,
                    on_completion=None, **foreign):
        """Hand one record over and return its future, which can be awaited; see `send`.

        The future's done callbacks run in the event loop, too.

        Args:
            topic: A ProducerRecord, or the topic's name.
            value: The value; with a ProducerRecord, `on_completion` may stand here.
            key: The key, or None.
            partition: Index of the partition, or None to let the partitioner choose.
            timestamp: Epoch ms, or None for now.
            headers: Pairs of str and bytes or None.
            on_completion: Called in the event loop as `on_completion(metadata, exception)`, one of them None.

        Raises:
            BufferExhaustedError: There is no memory for it now, or tasks wait for theirs. Not sent; the callback,
                interceptors and flush() are told, too.
            KafkaError: It cannot be handed over; see `send`. What happens later goes to the future.
            IllegalStateError: The producer is closed, or belongs to another event loop. Not sent.
        """
        # Called by way of the class, `self` may be anything: compiled code does not look.
        if not isinstance(self, AsyncProducerBase) or self.road is None:
            raise RuntimeError("this producer was never made: its __init__ did not run, or raised")
        if more or foreign:
            raise self.road.foreign(more, foreign)
        sent = self.at_once(topic, value, key, partition, timestamp, headers, on_completion)
        if type(sent) is FutureRecordMetadata:
            return sent
        return self._send_with_care(sent, topic, value, key, partition, timestamp, headers, on_completion)


AsyncProducerBase.send_nowait.__signature__ = _own_signature(AsyncProducerBase.send_nowait)
