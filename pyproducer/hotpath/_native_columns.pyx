# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: freethreading_compatible=True
"""The compiled twin of _python_columns.py, which is the definition: same names, same bytes, same exceptions.

Looking at columns gives the GIL up; `append_to` does not, because the road appends to the same batches without a lock.

Road:    send_batch() -> [ColumnChunk] -> OpenBatch ... completion -> [store_rows] -> BatchFuture
Thread:  as in _python_columns.py.
Source:  _python_columns.py.
"""

from array import array

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_CheckExact, PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from pyproducer.hotpath._native cimport (
    HEADER_BYTES, OVERHEAD_BYTES, OpenBatch, hash_key, lock_batch, put_varint, unlock_batch, varint_size)

cdef extern from "Python.h" nogil:
    PyObject *tuple_item "PyTuple_GET_ITEM" (PyObject *row, Py_ssize_t index)
    char *bytes_data "PyBytes_AS_STRING" (PyObject *data)
    Py_ssize_t bytes_size "PyBytes_GET_SIZE" (PyObject *data)
    PyObject *NONE "Py_None"

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define PYPRODUCER_PREFETCH(address) __builtin_prefetch(address)
    #else
    #define PYPRODUCER_PREFETCH(address) ((void)0)
    #endif
    """
    void prefetch "PYPRODUCER_PREFETCH" (const void *address) noexcept nogil

cdef enum:
    # How many rows ahead their bytes are asked for: rows of a partition lie apart, and waiting for memory was half of
    # the time (47 ns for a row of 108 bytes, 22 with this).
    AHEAD = 12
    ITEMS = 0
    NARROW = 1
    WIDE = 2
    DICTIONARY = 3

# Columns, and how a row of one is found: text of this same file, in a file of its own.
# ---- columns: where their bytes lie, and how a row is found

cdef uint8_t NO_HEADERS[1]
NO_HEADERS[0] = 0

cdef struct Item:
    const uint8_t *data
    Py_ssize_t size

cdef struct View:
    int kind
    int index_width
    int first_bit  # of the first row, in `validity`
    Py_ssize_t length
    const Item *items
    const uint8_t *data
    const uint8_t *validity
    const void *numbers
    const View *dictionary


cdef class Buffer:
    """Keeps the memory of one Arrow buffer; None is no memory."""

    cdef Py_buffer view
    cdef bint is_held

    def __cinit__(self, source):
        if source is not None:
            PyObject_GetBuffer(source, &self.view, PyBUF_SIMPLE)
            self.is_held = True

    def __dealloc__(self):
        if self.is_held:
            PyBuffer_Release(&self.view)

    cdef const uint8_t *start(self, Py_ssize_t needed_bytes) except? NULL:
        if needed_bytes <= 0:
            return NULL
        if not self.is_held or self.view.len < needed_bytes:
            raise ValueError("the Arrow array is broken: a buffer is shorter than its length says")
        return <const uint8_t *>self.view.buf


# ---- reading a column

cdef inline int64_t number_at(const View *view, Py_ssize_t row) noexcept nogil:
    if view.kind == NARROW:
        return (<const int32_t *>view.numbers)[row]
    if view.kind == WIDE or view.index_width == 8:
        return (<const int64_t *>view.numbers)[row]
    if view.index_width == 4:
        return (<const int32_t *>view.numbers)[row]
    if view.index_width == 2:
        return (<const short *>view.numbers)[row]
    return (<const signed char *>view.numbers)[row]


cdef inline bint is_null(const View *view, Py_ssize_t row) noexcept nogil:
    row += view.first_bit
    return view.validity is not NULL and not (view.validity[row >> 3] >> (row & 7)) & 1


cdef inline Py_ssize_t fetch(const View *view, Py_ssize_t row, const uint8_t **data) noexcept nogil:
    """Return the size of a row and where it is; -1 is None."""
    cdef int64_t begin
    if view.kind == ITEMS:
        data[0] = view.items[row].data
        return view.items[row].size
    if is_null(view, row):
        return -1
    if view.kind == DICTIONARY:
        return fetch_from(view.dictionary, number_at(view, row), data)
    begin = number_at(view, row)
    data[0] = view.data + begin
    return number_at(view, row + 1) - begin


cdef Py_ssize_t fetch_from(const View *dictionary, Py_ssize_t row, const uint8_t **data) noexcept nogil:
    return fetch(dictionary, row, data)


cdef class Column:
    """A column of bytes or None.

    But for the rows' bytes it has what it reads for itself: where the memory of an Arrow array may be written to, by
    NumPy say, what was checked would not stay so.
    """

    cdef View view
    cdef object owners
    cdef Item *items
    cdef void *numbers
    cdef void *validity

    def __dealloc__(self):
        free(self.items)
        free(self.numbers)
        free(self.validity)

    def __len__(self):
        return self.view.length

    cdef int keep_rows(self, validity, numbers, Py_ssize_t width, Py_ssize_t offset, Py_ssize_t count) except -1:
        """Copy the bitmap of the rows from `offset` on, if there is one, and `count` numbers of theirs."""
        cdef Py_ssize_t first_byte = offset >> 3, size = ((offset + self.view.length + 7) >> 3) - first_byte
        if validity is not None:
            self.validity = copied(validity, first_byte, size)
            self.view.validity = <const uint8_t *>self.validity
            self.view.first_bit = offset & 7
        self.numbers = copied(numbers, offset * width, count * width)
        self.view.numbers = self.numbers
        return 0


cdef void *copied(source, Py_ssize_t offset, Py_ssize_t size) except NULL:
    cdef Buffer buffer = Buffer(source)
    cdef const uint8_t *start = buffer.start(offset + size)
    cdef void *copy = malloc(size)
    if copy is NULL:
        raise MemoryError
    memcpy(copy, start + offset, size)
    return copy


def items_column(tuple items not None, Py_ssize_t offset, Py_ssize_t length):
    """Return a column of bytes objects; see _python_columns.py."""
    cdef Column column = Column.__new__(Column)
    cdef Py_ssize_t row
    cdef PyObject *item
    if offset < 0 or length < 0 or offset + length > len(items):
        raise ValueError("a column's part must lie inside of it")
    column.owners = items
    # Looked at once: the objects lie all over the memory, and every later look would cost what it takes to fetch them.
    column.items = <Item *>malloc(max(length, 1) * sizeof(Item))
    if column.items is NULL:
        raise MemoryError
    for row in range(length):
        item = tuple_item(<PyObject *>items, offset + row)
        if item is NONE:
            column.items[row].size = -1
        elif PyBytes_CheckExact(<object>item):
            column.items[row].data = <const uint8_t *>bytes_data(item)
            column.items[row].size = bytes_size(item)
        else:
            raise TypeError(f"a column's items must be bytes or None, got {type(<object>item).__name__}")
    column.view.kind = ITEMS
    column.view.items = column.items
    column.view.length = length
    return column


def binary_column(validity, offsets, data, bint is_wide, Py_ssize_t offset, Py_ssize_t length):
    """Return a column of an Arrow binary array's buffers; see _python_columns.py."""
    cdef Column column = Column.__new__(Column)
    cdef Buffer rows = Buffer(data)
    cdef Py_ssize_t row
    cdef View *view = &column.view
    cdef int64_t before, after, size
    cdef bint is_right = True
    column.owners = rows
    view.kind = WIDE if is_wide else NARROW
    view.length = length
    if length:
        column.keep_rows(validity, offsets, 8 if is_wide else 4, offset, length + 1)
        size = rows.view.len if rows.is_held else 0
        view.data = <const uint8_t *>rows.view.buf if size else <const uint8_t *>view.numbers
        with nogil:
            before = number_at(view, 0)
            is_right = before >= 0
            for row in range(length):
                after = number_at(view, row + 1)
                if after < before:
                    is_right = False
                before = after
            is_right = is_right and before <= size
        if not is_right:
            raise ValueError("the Arrow array is broken: its offsets do not grow, or point behind its data")
    return column


def dictionary_column(validity, indices, int index_width, Py_ssize_t offset, Py_ssize_t length,
                      Column dictionary not None):
    """Return a column whose rows are rows of another; see _python_columns.py."""
    cdef Column column = Column.__new__(Column)
    cdef View *view = &column.view
    cdef Py_ssize_t row
    cdef int64_t index
    cdef bint is_right = True
    column.owners = dictionary
    view.kind = DICTIONARY
    view.index_width = index_width
    view.length = length
    view.dictionary = &dictionary.view
    if length:
        column.keep_rows(validity, indices, index_width, offset, length)
        with nogil:
            for row in range(length):
                index = number_at(view, row)
                if (index < 0 or index >= dictionary.view.length) and not is_null(view, row):
                    is_right = False
        if not is_right:
            raise ValueError("the Arrow array is broken: an index points behind its dictionary")
    return column


# ---- headers

def encode_header_rows(validity, offsets, bint is_wide, Py_ssize_t offset, Py_ssize_t length,
                       Column keys not None, Column values not None, Py_ssize_t first_row):
    """Encode a list<struct<key, value>> column; see _python_columns.py."""
    cdef Column lists = Column.__new__(Column)
    cdef View *view = &lists.view
    cdef const uint8_t *key = NULL
    cdef const uint8_t *value = NULL
    cdef uint8_t *out
    cdef uint8_t bits
    cdef Py_ssize_t row, item, key_size, value_size, total = 0, i
    cdef int64_t begin, end, bound
    cdef bytes data
    bounds, ends = array("q", bytes(8 * length)), array("q", bytes(8 * (length + 1)))
    cdef int64_t[::1] bounds_view = bounds, ends_view = ends
    if length == 0:
        return b"", ends, bounds
    view.kind = WIDE if is_wide else NARROW
    view.length = length
    lists.keep_rows(validity, offsets, 8 if is_wide else 4, offset, length + 1)
    for row in range(length):
        begin, end, bound = number_at(view, row), number_at(view, row + 1), 0
        if begin < 0 or end < begin or end > keys.view.length or end > values.view.length:
            raise ValueError("the Arrow array is broken: its offsets do not grow, or point behind its data")
        if not is_null(view, row):
            total += varint_size(end - begin)
            for item in range(begin, end):
                key_size = fetch(&keys.view, item, &key)
                if key_size < 0:
                    raise TypeError(f"headers, row {first_row + row}: a header's key must be str, got NoneType: None")
                value_size = fetch(&values.view, item, &value)
                total += varint_size(key_size) + key_size + varint_size(value_size)
                bound += 10
                bits = 0
                for i in range(key_size):
                    bound += 4 * ((key[i] & 0xC0) != 0x80)
                    bits |= key[i]
                if bits & 0x80:
                    ensure_utf_8(key, key_size, first_row + row)
                if value_size > 0:
                    total += value_size
                    bound += value_size
        else:
            total += 1
        bounds_view[row] = bound
        ends_view[row + 1] = total
    data = PyBytes_FromStringAndSize(NULL, total)
    out = <uint8_t *>bytes_data(<PyObject *>data)
    for row in range(length):
        if is_null(view, row):
            out[0] = 0
            out += 1
            continue
        begin, end = number_at(view, row), number_at(view, row + 1)
        out = put_varint(out, end - begin)
        for item in range(begin, end):
            key_size = fetch(&keys.view, item, &key)
            out = put_varint(out, key_size)
            memcpy(out, key, key_size)
            out = put_varint(out + key_size, fetch(&values.view, item, &value))
            value_size = fetch(&values.view, item, &value)
            if value_size > 0:
                memcpy(out, value, value_size)
                out += value_size
    return data, ends, bounds


cdef int ensure_utf_8(const uint8_t *key, Py_ssize_t size, Py_ssize_t row) except -1:
    cdef bytes whole = key[:size]
    try:
        whole.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"headers, row {row}: the header key {whole!r} is not UTF-8, as Kafka wants it: {error.reason} "
                         f"(position {error.start})") from None
    return 0


# ---- a chunk of rows

cdef class ColumnChunk:
    """Rows that follow each other, by column; see _python_columns.py."""

    cdef Column values
    cdef Column keys
    cdef Column headers
    cdef int64_t[::1] header_bounds
    cdef readonly Py_ssize_t first_row
    cdef readonly Py_ssize_t row_count

    def __init__(self, Py_ssize_t first_row, Column values not None, Column keys, Column headers, header_bounds):
        self.first_row = first_row
        self.row_count = values.view.length
        self.values = values
        self.keys = keys
        self.headers = headers
        if headers is not None:
            self.header_bounds = header_bounds
        if ((keys is not None and keys.view.length != self.row_count)
                or (headers is not None and not headers.view.length == self.header_bounds.shape[0] == self.row_count)):
            raise ValueError("the columns of a chunk must have the same length")

    cdef inline Py_ssize_t bound_of(self, Py_ssize_t index) noexcept nogil:
        cdef const uint8_t *data = NULL
        cdef Py_ssize_t size = HEADER_BYTES + OVERHEAD_BYTES + max(0, fetch(&self.values.view, index, &data))
        if self.keys is not None:
            size += max(0, fetch(&self.keys.view, index, &data))
        if self.headers is not None:
            size += self.header_bounds[index]
        return size

    def size_upper_bound(self, Py_ssize_t row):
        """Return how many bytes a batch with just this row takes at most, its 61-byte header included."""
        if not 0 <= row - self.first_row < self.row_count:
            raise IndexError("the row is not in this chunk")
        return self.bound_of(row - self.first_row)

    def first_above(self, Py_ssize_t limit_bytes):
        """Return the first row whose `size_upper_bound` is above a limit, or -1."""
        cdef Py_ssize_t index, found = -1
        with nogil:
            for index in range(self.row_count):
                if self.bound_of(index) > limit_bytes:
                    found = self.first_row + index
                    break
        return found

    def turn_count(self, const int32_t[::1] partitions not None):
        """Return how many rows have neither a partition nor a key."""
        cdef Py_ssize_t index, count = 0
        cdef const uint8_t *data = NULL
        self.ensure_inside(partitions.shape[0])
        with nogil:
            for index in range(self.row_count):
                if partitions[self.first_row + index] < 0 and (
                        self.keys is None or fetch(&self.keys.view, index, &data) < 0):
                    count += 1
        return count

    def assign(self, int32_t[::1] partitions not None, Py_ssize_t partition_count,
               const int32_t[::1] available not None, int64_t first_turn):
        """Choose the partition of each row that has none; see _python_columns.py."""
        cdef Py_ssize_t index, size
        cdef const uint8_t *data = NULL
        if partition_count < 1 or available.shape[0] < 1:
            raise ValueError("there is no partition to choose")
        self.ensure_inside(partitions.shape[0])
        with nogil:
            for index in range(self.first_row, self.first_row + self.row_count):
                if partitions[index] >= 0:
                    continue
                size = -1 if self.keys is None else fetch(&self.keys.view, index - self.first_row, &data)
                if size < 0:
                    partitions[index] = available[(first_turn & 0x7FFFFFFF) % available.shape[0]]
                    first_turn += 1
                else:
                    partitions[index] = (hash_key(data, size) & 0x7FFFFFFF) % partition_count

    cdef int ensure_inside(self, Py_ssize_t length) except -1:
        if self.first_row < 0 or self.first_row + self.row_count > length:
            raise ValueError("the chunk is longer than the call")
        return 0

    def append_to(self, OpenBatch batch not None, const int64_t[::1] timestamps not None,
                  const int32_t[::1] order not None, Py_ssize_t start, Py_ssize_t end):
        """Encode rows into a batch until it has no room; see _python_columns.py."""
        lock_batch(&batch.lock)
        try:
            return self.append_alone(batch, timestamps, order, start, end)
        finally:
            unlock_batch(&batch.lock)

    cdef tuple append_alone(self, OpenBatch batch, const int64_t[::1] timestamps, const int32_t[::1] order,
                            Py_ssize_t start, Py_ssize_t end):
        cdef Py_ssize_t first = batch.record_count, count = first, used = batch.used, capacity = len(batch.storage)
        cdef Py_ssize_t position, row, key_size, value_size, headers_size, body, after, needed
        cdef int64_t base = batch.base_timestamp, latest = batch.max_timestamp, delta
        cdef const uint8_t *key = NULL
        cdef const uint8_t *value = NULL
        cdef const uint8_t *headers = NULL
        cdef const View *values = &self.values.view
        cdef const View *keys = NULL if self.keys is None else &self.keys.view
        cdef const View *header_rows = NULL if self.headers is None else &self.headers.view
        cdef uint8_t *out
        if batch.closed:
            return first, 0
        self.ensure_inside(timestamps.shape[0])
        if not 0 <= start <= end <= order.shape[0]:
            raise ValueError("the part of the order does not exist")
        try:
            for position in range(start, end):
                row = order[position] - self.first_row
                if not 0 <= row < self.row_count:
                    raise IndexError("the row is not in this chunk")
                if position + AHEAD < end and 0 <= order[position + AHEAD] - self.first_row < self.row_count:
                    if fetch(values, order[position + AHEAD] - self.first_row, &value) > 0:
                        prefetch(value)
                        prefetch(value + 64)
                key_size = -1 if keys is NULL else fetch(keys, row, &key)
                value_size = fetch(values, row, &value)
                headers_size = 1
                needed = OVERHEAD_BYTES + key_size + value_size
                if header_rows is not NULL:
                    headers_size = fetch(header_rows, row, &headers)
                    if headers_size <= 0:
                        headers, headers_size = NO_HEADERS, 1
                    needed += self.header_bounds[row]
                if count and used + needed > batch.write_limit_bytes:
                    break
                delta = timestamps[order[position]] - base if count else 0
                body = (1 + varint_size(delta) + varint_size(count) + varint_size(key_size) + varint_size(value_size)
                        + headers_size + max(key_size, 0) + max(value_size, 0))
                after = used + varint_size(body) + body
                if after > capacity:
                    try:
                        batch.reserve(after)
                    except MemoryError:
                        if count == first:
                            raise
                        break
                    capacity = len(batch.storage)
                out = put_varint(<uint8_t *>PyByteArray_AS_STRING(batch.storage) + used, body)
                out[0] = 0
                out = put_varint(put_varint(out + 1, delta), count)
                out = put_varint(out, key_size)
                if key_size > 0:
                    memcpy(out, key, key_size)
                    out += key_size
                out = put_varint(out, value_size)
                if value_size > 0:
                    memcpy(out, value, value_size)
                    out += value_size
                if header_rows is NULL:
                    out[0] = 0
                else:
                    memcpy(out, headers, headers_size)
                if count == 0:
                    base = latest = timestamps[order[position]]
                elif base + delta > latest:
                    latest = base + delta
                count += 1
                used = after
        finally:
            # Also when something failed in between: rows are in the batch whole or not at all.
            batch.record_count, batch.used, batch.base_timestamp, batch.max_timestamp = count, used, base, latest
        return first, count - first


# ---- the call's own arrays

def sort_rows(const int32_t[::1] partitions not None, Py_ssize_t first_row, Py_ssize_t row_count,
              Py_ssize_t partition_count):
    """Return the rows ordered by partition, and where each partition begins; see _python_columns.py."""
    cdef Py_ssize_t row, partition, total = 0
    cdef Py_ssize_t stop = first_row + row_count
    if not 0 <= first_row <= stop <= partitions.shape[0]:
        raise ValueError("the rows do not exist")
    order, starts = array("i", bytes(4 * row_count)), array("q", bytes(8 * (partition_count + 2)))
    cdef int32_t[::1] order_view = order
    cdef int64_t[::1] places = starts
    with nogil:
        # places[p + 2] counts p, then sums up to where p + 1 begins, then moves to where it ends: starts of p at p.
        for row in range(first_row, stop):
            if 0 <= partitions[row] < partition_count:
                places[partitions[row] + 2] += 1
        for partition in range(2, partition_count + 2):
            total += places[partition]
            places[partition] = total
        for row in range(first_row, stop):
            partition = partitions[row]
            if 0 <= partition < partition_count:
                order_view[places[partition + 1]] = <int32_t>row
                places[partition + 1] += 1
    return order, starts[:partition_count + 1]


def store_rows(int64_t[::1] offsets not None, int64_t[::1] timestamps not None, const int32_t[::1] order not None,
               Py_ssize_t start, Py_ssize_t count, int64_t offset, int64_t log_append_time):
    """Write where rows are stored into the call's arrays; see _python_columns.py."""
    cdef Py_ssize_t position, row
    if not 0 <= start <= start + count <= order.shape[0]:
        raise ValueError("the part of the order does not exist")
    for position in range(count):
        row = order[start + position]
        if not 0 <= row < offsets.shape[0] or row >= timestamps.shape[0]:
            raise IndexError("the row does not exist")
        offsets[row] = offset + position if offset >= 0 else -1
        if log_append_time >= 0:
            timestamps[row] = log_append_time
