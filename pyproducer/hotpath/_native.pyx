# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: freethreading_compatible=True
"""The compiled twin of _python.py, which is the definition: same names, same bytes, same exceptions.

Everything here runs under the GIL and gives it up nowhere but where Python code is called (callbacks), so a method that
calls none is atomic. _native_road relies on that: it appends to a batch without the partition's lock. Where there is no
GIL a lock of the batch's own makes it so (_native.pxd), critical sections guard fields that are replaced while others
read them, and nothing is used again because nobody else has it: who has what is not known there.

Road:    accumulator -> [OpenBatch] -> record ... completion -> [run_callbacks] -> application
Thread:  as in _python.py.
Source:  _python.py (fields that _native_columns shares are in _native.pxd); Java Utils.murmur2, DefaultRecord.writeTo (4.1).
"""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    # A batch.size of many megabytes is not taken at once for a batch that may stay small.
    MOST_RESERVED_BYTES = 131072

HEADER_SIZE_BYTES = HEADER_BYTES


# ---- the hash of a key: Java's murmur2 (Utils.murmur2); _python.py is the definition

cdef uint32_t hash_key(const uint8_t *data, Py_ssize_t length) noexcept nogil:
    cdef uint32_t m = 0x5BD1E995
    cdef uint32_t h = <uint32_t>0x9747B28C ^ <uint32_t>length
    cdef Py_ssize_t whole = length & ~3
    cdef Py_ssize_t i = 0
    cdef uint32_t k
    while i < whole:
        # Byte by byte, so that the result does not depend on the machine; a compiler makes one load of it.
        k = (<uint32_t>data[i] | (<uint32_t>data[i + 1] << 8) | (<uint32_t>data[i + 2] << 16)
             | (<uint32_t>data[i + 3] << 24))
        k *= m
        k ^= k >> 24
        k *= m
        h *= m
        h ^= k
        i += 4
    cdef Py_ssize_t rest = length - whole
    if rest:
        if rest == 3:
            h ^= <uint32_t>data[whole + 2] << 16
        if rest >= 2:
            h ^= <uint32_t>data[whole + 1] << 8
        h ^= data[whole]
        h *= m
    h ^= h >> 13
    h *= m
    return h ^ (h >> 15)


def murmur2(bytes data not None):
    """Hash a key as Java's Utils.murmur2 does; the result is an unsigned 32-bit int."""
    return hash_key(<const uint8_t *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


# ---- headers

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL


def encode_headers(headers):
    """Encode a record's headers: their count, then each key and value with its length."""
    cdef Py_ssize_t size, length
    cdef const char *text
    cdef uint8_t *out
    cdef tuple pairs
    cdef object header, key, value
    if not headers:
        return b"\x00"
    # A tuple of tuples cannot change between the two passes.
    pairs = headers if PyTuple_CheckExact(headers) else tuple(headers)
    size = varint_size(len(pairs))
    for header in pairs:
        if not is_pair(header):
            return encode_other_headers(headers)
        key, value = <object>PyTuple_GET_ITEM(header, 0), <object>PyTuple_GET_ITEM(header, 1)
        if not PyUnicode_CheckExact(key) or not (value is None or PyBytes_CheckExact(value)):
            return encode_other_headers(headers)
        PyUnicode_AsUTF8AndSize(key, &length)
        size += varint_size(length) + length
        size += 1 if value is None else varint_size(PyBytes_GET_SIZE(value)) + PyBytes_GET_SIZE(value)
    encoded = PyBytes_FromStringAndSize(NULL, size)
    out = put_varint(<uint8_t *>PyBytes_AS_STRING(encoded), len(pairs))
    for header in pairs:
        key, value = <object>PyTuple_GET_ITEM(header, 0), <object>PyTuple_GET_ITEM(header, 1)
        text = PyUnicode_AsUTF8AndSize(key, &length)
        out = put_varint(out, length)
        memcpy(out, text, length)
        out += length
        if value is None:
            out[0] = 1
            out += 1
        else:
            out = put_varint(out, PyBytes_GET_SIZE(value))
            memcpy(out, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
            out += PyBytes_GET_SIZE(value)
    return encoded


cdef bytes encode_other_headers(headers):
    from pyproducer.hotpath import _python
    return _python.encode_headers(headers)


def record_size_upper_bound(key, value, headers):
    """Return how many bytes a batch with just this record takes at most, its 61-byte header included."""
    cdef Py_ssize_t size = HEADER_BYTES + OVERHEAD_BYTES
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    for header_key, header_value in headers:
        size += 10 + 4 * len(header_key) + (len(header_value) if header_value is not None else 0)
    return size


# ---- batches and futures

@cython.no_gc
cdef class FutureRecordMetadata:
    """The promise of one record's `RecordMetadata`; all it can do is done by its batch's outcome, `_result`.

    Not tracked by the garbage collector: completion drops the callbacks, and with them any cycle through them. A producer
    completes each; of a MockProducer that was not closed, a cycle stays.
    """

    cdef object outcome  # _result, which a split replaces
    cdef public Py_ssize_t _index
    cdef public int64_t _timestamp
    cdef public Py_ssize_t serialized_key_size
    cdef public Py_ssize_t serialized_value_size
    cdef public object _on_completion
    cdef public object _done_callbacks

    def __init__(self, result, Py_ssize_t index, int64_t timestamp, Py_ssize_t key_size, Py_ssize_t value_size,
                 on_completion):
        self.outcome = result
        self._index = index
        self._timestamp = timestamp
        self.serialized_key_size = key_size
        self.serialized_value_size = value_size
        self._on_completion = on_completion

    @property
    def _result(self):
        with cython.critical_section(self):
            return self.outcome

    @_result.setter
    def _result(self, result):
        with cython.critical_section(self):
            self.outcome = result

    def done(self):
        """Whether the outcome of the record is known."""
        return bool(self._result.is_set)

    def running(self):
        """Whether the record is on its way."""
        return not self._result.is_set

    def cancel(self):
        """Return False: a record that was handed over cannot be taken back."""
        return False

    def cancelled(self):
        """Return False: a record that was handed over cannot be taken back."""
        return False

    def result(self, timeout=None):
        """Wait for the record and return where it was stored; see _python.py."""
        return self._result.result_of(self, timeout)

    def exception(self, timeout=None):
        """Wait for the record and return its error, or None when it was stored; see _python.py."""
        return self._result.exception_of(self, timeout)

    def add_done_callback(self, fn):
        """Call `fn(future)` once the record is done; at once when it is done already."""
        self._result.add_done_callback(self, fn)

    def remove_done_callback(self, fn):
        """Forget a callback that was added and not called; return how many times it was there. asyncio.wait() asks."""
        return self._result.remove_done_callback(self, fn)

    @property
    def get(self):
        """Of kafka-python's futures; this one has `result`."""
        raise AttributeError("a FutureRecordMetadata has no get(): result(timeout) waits, with the timeout in seconds")

    @property
    def add_callback(self):
        """Of kafka-python's futures; this one has `add_done_callback`."""
        raise AttributeError("a FutureRecordMetadata has no add_callback(): add_done_callback(fn) calls fn(future), "
                             "and send(..., on_completion=fn) calls fn(metadata, exception)")

    @property
    def add_errback(self):
        """Of kafka-python's futures; this one has `add_done_callback`."""
        raise AttributeError("a FutureRecordMetadata has no add_errback(): add_done_callback(fn) calls fn(future), "
                             "and send(..., on_completion=fn) calls fn(metadata, exception)")

    # What concurrent.futures.wait(), as_completed() and asyncio.wrap_future() ask of a concurrent.futures.Future.

    @property
    def __class__(self):
        from concurrent.futures import Future

        return Future

    @property
    def _condition(self):
        return self._result.concurrent_state_of(self).condition

    @property
    def _waiters(self):
        return self._result.concurrent_state_of(self).waiters

    @property
    def _state(self):
        return self._result.concurrent_state_of(self).name

    def _get_snapshot(self):
        """Return whether it is done, whether cancelled, and one of result and error; from Python 3.14 on."""
        if not self._result.is_set:
            return False, False, None, None
        error = self._result.exception_of(self, 0)
        return True, False, self._result.result_of(self, 0) if error is None else None, error

    def __reduce_ex__(self, _protocol):
        raise TypeError("a FutureRecordMetadata cannot be pickled or copied: it belongs to its producer; what result() "
                        "returns can be")

    def __await__(self):
        return self._result.await_of(self)

    def __repr__(self):
        return str(self._result.describe(self))


# ---- the storages of batches that nobody has any more, kept for the next batches
#
# Without it a steady load costs page faults: the heap's end is free whenever the producer caught up, malloc gives it
# back to the kernel, and the next batch gets its pages zeroed again (64 KiB: 16 faults, a third of a batch's CPU).
# Like the free lists of CPython's own objects, and Java BufferPool's free buffers (4.1).

cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    #define is_only_ours(thing) 0
    #else
    #define is_only_ours(thing) (Py_REFCNT(thing) == 1)
    #endif
    """
    bint is_only_ours(PyObject *thing)  # without the GIL nobody knows

cdef extern from "Python.h":
    ctypedef struct ByteArray "PyByteArrayObject":
        Py_ssize_t ob_alloc
    PyObject *list_item "PyList_GET_ITEM" (list row, Py_ssize_t index)

cdef enum:
    MOST_SPARE_BYTES = 4194304  # what a load that is keeping up has in its batches; more would only hold memory
    LEAST_SPARE_BYTES = 16384  # batch.size as Java has it; smaller ones are served from pages that are there
    TOO_LARGE_TO_SPARE_BYTES = 524288
    SPARE_LISTS = 5  # by size, each for capacities up to twice those of the one before

cdef list spare_storages = [[] for _ in range(SPARE_LISTS)]
cdef Py_ssize_t spare_bytes = 0


cdef inline int spare_list_of(Py_ssize_t size) noexcept:
    cdef int index = 0
    while size >= 2 * LEAST_SPARE_BYTES:
        size >>= 1
        index += 1
    return index


cdef bytearray take_spare(Py_ssize_t size):
    """Return a storage of about this capacity, its contents those of another batch, or None."""
    global spare_bytes
    cdef list storages
    cdef Py_ssize_t capacity
    cdef int index
    if LEAST_SPARE_BYTES <= size < TOO_LARGE_TO_SPARE_BYTES:
        for index in range(spare_list_of(size), min(spare_list_of(size) + 2, SPARE_LISTS)):
            storages = <list>spare_storages[index]
            if storages:
                capacity = (<ByteArray *>list_item(storages, len(storages) - 1)).ob_alloc
                # Resized to less than half, a bytearray moves to a smaller place.
                if size < capacity <= 2 * size:
                    spare_bytes -= capacity
                    return <bytearray>storages.pop()
    return None


cdef int keep_spare(bytearray storage) except -1:
    """Keep a storage whose only owner is about to go; where there is no room, those of other sizes go for it."""
    global spare_bytes
    cdef Py_ssize_t size = (<ByteArray *>storage).ob_alloc
    cdef list storages
    cdef int index
    if size < LEAST_SPARE_BYTES or size >= TOO_LARGE_TO_SPARE_BYTES:
        return 0
    for index in range(SPARE_LISTS):
        storages = <list>spare_storages[index]
        while storages and spare_bytes + size > MOST_SPARE_BYTES and index != spare_list_of(size):
            spare_bytes -= (<ByteArray *>list_item(storages, len(storages) - 1)).ob_alloc
            storages.pop()
    if spare_bytes + size <= MOST_SPARE_BYTES:
        (<list>spare_storages[spare_list_of(size)]).append(storage)
        spare_bytes += size
    return 0


cdef extern from "Python.h":
    void untrack "PyObject_GC_UnTrack" (object thing)


cdef class OpenBatch:
    """The open end of one batch: records are encoded behind the room for its header; and a future for each."""

    # Its fields are in _native.pxd.

    def __cinit__(self, result, Py_ssize_t write_limit_bytes):
        self.storage = bytearray(HEADER_BYTES)
        self.used = HEADER_BYTES
        self.record_count = 0
        self.base_timestamp = -1
        self.max_timestamp = -1
        self.result = result
        self.write_limit_bytes = write_limit_bytes
        self.futures = []
        # The futures in it are not tracked by the garbage collector, so tracking the list finds no cycle: it would only
        # be walked, future by future, in each young collection.
        untrack(self.futures)
        self.closed = False
        # One allocation for the life of a batch; its size is reserved of buffer.memory anyway.
        self.reserve(min(write_limit_bytes, MOST_RESERVED_BYTES))

    def __dealloc__(self):
        # Nobody else has it: no request that may be on the wire (KAFKA-19012), and no view, which would count too.
        if self.storage is not None and is_only_ours(<PyObject *>self.storage):
            keep_spare(self.storage)

    @property
    def buffer(self):
        """The bytes so far; made exact here, so that appending need not resize for each record."""
        if len(self.storage) != self.used:
            PyByteArray_Resize(self.storage, self.used)
        return self.storage

    @property
    def size_bytes(self):
        """Bytes so far, the header's 61 included."""
        return self.used

    @property
    def is_closed(self):
        """Whether it takes no record any more."""
        return self.closed

    @is_closed.setter
    def is_closed(self, bint value):
        # Who appends at this moment has finished before.
        lock_batch(&self.lock)
        self.closed = value
        unlock_batch(&self.lock)

    @property
    def is_full(self):
        """Whether no record fits any more."""
        return self.closed or self.used >= self.write_limit_bytes

    cdef int reserve(self, Py_ssize_t size) except -1:
        # Doubling: a bytearray grows by an eighth by itself, which copies a batch of 64 KiB thirty times over. It ends
        # where the batch does: more is not reserved, and only the first record may need more.
        cdef Py_ssize_t capacity = len(self.storage)
        cdef bytearray spare
        if size <= capacity:
            return 0
        size = max(size, min(2 * capacity, self.write_limit_bytes))
        spare = take_spare(size) if is_only_ours(<PyObject *>self.storage) else None
        if spare is None:
            PyByteArray_Resize(self.storage, size)
            return 0
        PyByteArray_Resize(spare, size)
        # All of it, and not `used`: rows are counted when the call that appends them ends (_native_columns.pyx).
        memcpy(PyByteArray_AS_STRING(spare), PyByteArray_AS_STRING(self.storage), capacity)
        if capacity > HEADER_BYTES:
            keep_spare(self.storage)
        self.storage = spare
        return 0

    def append(self, int64_t timestamp, bytes key, bytes value, headers):
        """Encode one record at the end, whatever the limit is, and without a future."""
        self.put(timestamp, key, value, encode_headers(headers) if headers else None)

    cdef int put(self, int64_t timestamp, bytes key, bytes value, bytes headers) except -1:
        cdef Py_ssize_t count = self.record_count
        cdef int64_t delta = timestamp - self.base_timestamp if count else 0
        cdef Py_ssize_t key_size = -1 if key is None else PyBytes_GET_SIZE(key)
        cdef Py_ssize_t value_size = -1 if value is None else PyBytes_GET_SIZE(value)
        cdef Py_ssize_t headers_size = 1 if headers is None else PyBytes_GET_SIZE(headers)
        cdef Py_ssize_t body = (1 + varint_size(delta) + varint_size(count) + varint_size(key_size)
                                + varint_size(value_size) + headers_size)
        if key_size > 0:
            body += key_size
        if value_size > 0:
            body += value_size
        cdef Py_ssize_t end = self.used + varint_size(body) + body
        self.reserve(end)
        # From here on nothing can fail, so a record is in the batch whole or not at all.
        cdef uint8_t *out = <uint8_t *>PyByteArray_AS_STRING(self.storage) + self.used
        out = put_varint(out, body)
        out[0] = 0
        out = put_varint(out + 1, delta)
        out = put_varint(out, count)
        out = put_varint(out, key_size)
        if key_size > 0:
            memcpy(out, PyBytes_AS_STRING(key), key_size)
            out += key_size
        out = put_varint(out, value_size)
        if value_size > 0:
            memcpy(out, PyBytes_AS_STRING(value), value_size)
            out += value_size
        if headers is None:
            out[0] = 0
        else:
            memcpy(out, PyBytes_AS_STRING(headers), headers_size)
        if count == 0:
            self.base_timestamp = self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.record_count = count + 1
        self.used = end
        return 0

    def try_append(self, int64_t timestamp, bytes key, bytes value, headers, on_completion):
        """Add a record and return its future, or None when the batch is closed or has no room."""
        cdef Py_ssize_t headers_bound = 0
        if headers:
            for header_key, header_value in headers:
                headers_bound += 10 + 4 * len(header_key) + (0 if header_value is None else len(header_value))
        return self.add(timestamp, key, value, headers, headers_bound, on_completion)

    cdef object add(self, int64_t timestamp, bytes key, bytes value, headers, Py_ssize_t headers_bound, on_completion):
        cdef Py_ssize_t key_size = -1 if key is None else PyBytes_GET_SIZE(key)
        cdef Py_ssize_t value_size = -1 if value is None else PyBytes_GET_SIZE(value)
        cdef bytes encoded_headers = None
        cdef FutureRecordMetadata future
        cdef bint is_alone = False
        if self.closed:
            return None
        if headers:
            encoded_headers = encode_headers(headers)
        # Made first: an allocation may run a finalizer, and with it another thread; what follows runs undisturbed.
        future = FutureRecordMetadata.__new__(FutureRecordMetadata)
        lock_batch(&self.lock)
        try:
            if self.closed:
                return None
            if self.record_count and (self.used + OVERHEAD_BYTES + key_size + value_size + headers_bound
                                      > self.write_limit_bytes):
                return None
            future.outcome = self.result
            future._index = self.record_count
            future._timestamp = timestamp
            future.serialized_key_size = key_size
            future.serialized_value_size = value_size
            future._on_completion = on_completion
            # Before the record, which must not be there without one.
            self.futures.append(future)
            is_alone = True
            self.put(timestamp, key, value, encoded_headers)
            is_alone = False
        finally:
            if is_alone:  # there was no memory
                self.futures.pop()
            unlock_batch(&self.lock)
        return future


# ---- completion

cdef extern from "Python.h":
    """
    #if defined(__GNUC__)
    #define fetch_early(address) __builtin_prefetch(address)
    #else
    #define fetch_early(address) ((void)(address))
    #endif
    /* A tuple keeps its hash from Python 3.14 on; -1 is "not known yet", which an allocator of zeros does not say. */
    #if PY_VERSION_HEX >= 0x030E0000 && !defined(PYPY_VERSION)
    #define forget_hash(row) (((PyTupleObject *)(row))->ob_hash = -1)
    #else
    #define forget_hash(row) ((void)(row))
    #endif
    """
    object tuple_alloc "PyType_GenericAlloc" (PyTypeObject *cls, Py_ssize_t size)
    PyObject *tuple_item "PyTuple_GET_ITEM" (object row, Py_ssize_t index)
    void forget_hash(object row)
    void release "Py_DECREF" (PyObject *thing)
    void fetch_early(const void *address)

# With a full buffer.memory the futures of a batch were made a third of a second ago and are in no cache any more; a
# callback takes about as long as memory needs for an eighth of these, two cache lines each.
cdef enum:
    FUTURES_AHEAD = 12
    CACHE_LINE_BYTES = 64


def run_callbacks(list futures not None, metadata_class, topic, partition, int64_t base_offset,
                  int64_t log_append_time, on_raised):
    """Tell the records of a stored batch, in order: on_completion(metadata, None), then the done callbacks."""
    cdef Py_ssize_t index, count = len(futures)
    cdef FutureRecordMetadata future
    cdef object on_completion, metadata = None
    cdef int64_t offset, timestamp
    if not issubclass(metadata_class, tuple):
        raise TypeError(f"metadata_class must be a tuple, got {metadata_class!r}")
    for index in range(count):
        if index + FUTURES_AHEAD < count:
            fetch_early(<const char *>list_item(futures, index + FUTURES_AHEAD))
            fetch_early(<const char *>list_item(futures, index + FUTURES_AHEAD) + CACHE_LINE_BYTES)
        future = <FutureRecordMetadata>futures[index]
        on_completion = future._on_completion
        if on_completion is not None:
            offset = base_offset + future._index if base_offset >= 0 else -1
            timestamp = log_append_time if log_append_time >= 0 else future._timestamp
            if metadata is not None and is_only_ours(<PyObject *>metadata):
                # The callback kept nothing: the next one gets the same tuple, as zip() does it.
                forget_hash(metadata)
                replace_item(metadata, 2, offset)
                replace_item(metadata, 3, timestamp)
                replace_item(metadata, 4, future.serialized_key_size)
                replace_item(metadata, 5, future.serialized_value_size)
            else:
                metadata = new_metadata(metadata_class, topic, partition, offset, timestamp,
                                        future.serialized_key_size, future.serialized_value_size)
            future._on_completion = None  # last: who is told is not told again
            try:
                on_completion(metadata, None)
            except BaseException as error:
                on_raised(future, on_completion, error)
        if future._done_callbacks is not None:
            future._result.run_done_callbacks(future)


cdef inline void put_item(object row, Py_ssize_t index, object item) noexcept:
    Py_INCREF(item)
    PyTuple_SET_ITEM(row, index, item)


cdef inline void replace_item(object row, Py_ssize_t index, object item) noexcept:
    cdef PyObject *old = tuple_item(row, index)
    put_item(row, index, item)
    release(old)


cdef object new_metadata(object metadata_class, object topic, object partition, int64_t offset, int64_t timestamp,
                         Py_ssize_t key_size, Py_ssize_t value_size):
    # A NamedTuple's own constructor checks and copies its arguments; here they are known to be right.
    cdef object offset_item = offset, timestamp_item = timestamp, key_item = key_size, value_item = value_size
    cdef object row = tuple_alloc(<PyTypeObject *>metadata_class, 6)
    forget_hash(row)
    put_item(row, 0, topic)
    put_item(row, 1, partition)
    put_item(row, 2, offset_item)
    put_item(row, 3, timestamp_item)
    put_item(row, 4, key_item)
    put_item(row, 5, value_item)
    return row
