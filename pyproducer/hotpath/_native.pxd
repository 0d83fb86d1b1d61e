# cython: language_level=3
"""What the two compiled files share: the open batch's fields, hashing, varints.

Road:    _native, _native_columns -> [pxd]
Thread:  as in _python.py.
Source:  _python.py.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    HEADER_BYTES = 61
    OVERHEAD_BYTES = 21


# Where Python runs without the GIL, each batch has a lock: what is one step for all other threads under the GIL is one
# there because it is held. Nothing is called with it held that may run other Python code.
cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    typedef PyMutex BatchLock;
    #define lock_batch(lock) PyMutex_Lock(lock)
    #define unlock_batch(lock) PyMutex_Unlock(lock)
    #else
    typedef char BatchLock;
    #define lock_batch(lock) ((void)(lock))
    #define unlock_batch(lock) ((void)(lock))
    #endif
    """
    ctypedef int BatchLock
    void lock_batch(BatchLock *lock)
    void unlock_batch(BatchLock *lock)


cdef extern from *:
    """
    /* Not of a subclass that has an __iter__ of its own, and with it other items. */
    #define is_pair(thing) (PyTuple_Check(thing) && PyTuple_GET_SIZE(thing) == 2 \\
                            && Py_TYPE(thing)->tp_iter == PyTuple_Type.tp_iter)
    """
    bint is_pair(object thing)


cdef uint32_t hash_key(const uint8_t *data, Py_ssize_t length) noexcept nogil


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)


cdef inline int uvarint_size(uint64_t value) noexcept nogil:
    cdef int size = 1
    while value > 0x7F:
        value >>= 7
        size += 1
    return size


cdef inline uint8_t *put_uvarint(uint8_t *out, uint64_t value) noexcept nogil:
    while value > 0x7F:
        out[0] = <uint8_t>(value & 0x7F) | 0x80
        out += 1
        value >>= 7
    out[0] = <uint8_t>value
    return out + 1


cdef inline int varint_size(int64_t value) noexcept nogil:
    return uvarint_size(zigzag(value))


cdef inline uint8_t *put_varint(uint8_t *out, int64_t value) noexcept nogil:
    return put_uvarint(out, zigzag(value))


cdef class OpenBatch:
    cdef bytearray storage
    cdef Py_ssize_t used
    cdef readonly Py_ssize_t record_count
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp

    cdef public object result
    cdef public Py_ssize_t write_limit_bytes
    cdef public list futures
    cdef bint closed  # is_closed, the property, is written with the lock held
    cdef BatchLock lock  # guards the bytes, their counts, `futures` and `closed`

    cdef int reserve(self, Py_ssize_t size) except -1
    cdef int put(self, int64_t timestamp, bytes key, bytes value, bytes headers) except -1
    cdef object add(self, int64_t timestamp, bytes key, bytes value, headers, Py_ssize_t headers_bound,
                    on_completion)
