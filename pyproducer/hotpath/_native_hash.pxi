# Java's murmur2 of a key. Included by _native.pyx; _python.py is the definition.
#
# Road:    partitioner -> [hash]
# Thread:  any; pure.
# Source:  Java Utils.murmur2 (4.1).

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
