# The storages of batches that nobody has any more, kept for the next batches. Included by _native.pyx.
#
# Without it a steady load costs page faults: the heap's end is free whenever the producer caught up, malloc gives it
# back to the kernel, and the next batch gets its pages zeroed again (64 KiB: 16 faults, a third of a batch's CPU).
#
# Road:    an OpenBatch that is gone -> [spare storages] -> the next OpenBatch
# Thread:  any; under the GIL, which nothing here gives up.
# Source:  the free lists of CPython's own objects; Java BufferPool's free buffers (4.1).

cdef extern from "Python.h":
    ctypedef struct ByteArray "PyByteArrayObject":
        Py_ssize_t ob_alloc
    Py_ssize_t references "Py_REFCNT" (PyObject *thing)

cdef enum:
    MOST_SPARE_BYTES = 4194304  # what a load that is keeping up has in its batches; more would only hold memory
    LEAST_SPARE_BYTES = 16384  # batch.size as Java has it; smaller ones are served from pages that are there

cdef list spare_storages = []
cdef Py_ssize_t spare_bytes = 0


cdef bytearray take_spare(Py_ssize_t size):
    """Return a storage of about this capacity, its contents those of another batch, or None."""
    global spare_bytes
    cdef bytearray storage
    if size >= LEAST_SPARE_BYTES and spare_storages:
        storage = <bytearray>spare_storages.pop()
        spare_bytes -= (<ByteArray *>storage).ob_alloc
        # Resized to less than half, a bytearray moves to a smaller place. One that does not fit is let go: producers
        # with another batch.size leave theirs behind.
        if size < (<ByteArray *>storage).ob_alloc <= 2 * size:
            return storage
    return None


cdef int keep_spare(bytearray storage) except -1:
    """Keep a storage whose only owner is about to go."""
    global spare_bytes
    cdef Py_ssize_t size = (<ByteArray *>storage).ob_alloc
    if LEAST_SPARE_BYTES <= size <= 2 * MOST_RESERVED_BYTES and spare_bytes + size <= MOST_SPARE_BYTES:
        spare_storages.append(storage)
        spare_bytes += size
    return 0
