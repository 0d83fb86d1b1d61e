# Columns of _native_columns.pyx, which includes this text: where their bytes lie, and how a row is found.
# Road, Thread, Source: as in _native_columns.pyx.

cdef uint8_t NO_HEADERS[1]
NO_HEADERS[0] = 0

cdef struct Item:
    const uint8_t *data
    Py_ssize_t size

cdef struct View:
    int kind
    int index_width
    Py_ssize_t offset
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
    return view.validity is not NULL and not (view.validity[row >> 3] >> (row & 7)) & 1


cdef inline Py_ssize_t fetch(const View *view, Py_ssize_t row, const uint8_t **data) noexcept nogil:
    """Return the size of a row and where it is; -1 is None."""
    cdef int64_t begin
    if view.kind == ITEMS:
        data[0] = view.items[row].data
        return view.items[row].size
    row += view.offset
    if is_null(view, row):
        return -1
    if view.kind == DICTIONARY:
        row = number_at(view, row)
        view = view.dictionary
        row += view.offset
        if is_null(view, row):
            return -1
    begin = number_at(view, row)
    data[0] = view.data + begin
    return number_at(view, row + 1) - begin


cdef class Column:
    """A column of bytes or None."""

    cdef View view
    cdef tuple owners
    cdef Item *items

    def __dealloc__(self):
        free(self.items)

    def __len__(self):
        return self.view.length


def items_column(tuple items not None, Py_ssize_t offset, Py_ssize_t length):
    """Return a column of bytes objects; see _python_columns.py."""
    cdef Column column = Column.__new__(Column)
    cdef Py_ssize_t row
    cdef PyObject *item
    if offset < 0 or length < 0 or offset + length > len(items):
        raise ValueError("a column's part must lie inside of it")
    column.owners = (items,)
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
    cdef Buffer validity_buffer = Buffer(validity), offsets_buffer = Buffer(offsets), data_buffer = Buffer(data)
    cdef Py_ssize_t width = 8 if is_wide else 4, row
    cdef View *view = &column.view
    cdef int64_t before, after, size
    cdef bint is_right = True
    column.owners = (validity_buffer, offsets_buffer, data_buffer)
    view.kind = WIDE if is_wide else NARROW
    view.offset = offset
    view.length = length
    if length:
        if validity is not None:
            view.validity = validity_buffer.start((offset + length + 7) // 8)
        view.numbers = offsets_buffer.start((offset + length + 1) * width)
        size = data_buffer.view.len if data_buffer.is_held else 0
        view.data = <const uint8_t *>data_buffer.view.buf if size else <const uint8_t *>view.numbers
        with nogil:
            before = number_at(view, offset)
            is_right = before >= 0
            for row in range(offset, offset + length):
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
    cdef Buffer validity_buffer = Buffer(validity), indices_buffer = Buffer(indices)
    cdef View *view = &column.view
    cdef Py_ssize_t row
    cdef int64_t index
    cdef bint is_right = True
    column.owners = (validity_buffer, indices_buffer, dictionary)
    view.kind = DICTIONARY
    view.index_width = index_width
    view.offset = offset
    view.length = length
    view.dictionary = &dictionary.view
    if length:
        if validity is not None:
            view.validity = validity_buffer.start((offset + length + 7) // 8)
        view.numbers = indices_buffer.start((offset + length) * index_width)
        with nogil:
            for row in range(offset, offset + length):
                index = number_at(view, row)
                if (index < 0 or index >= dictionary.view.length) and not is_null(view, row):
                    is_right = False
        if not is_right:
            raise ValueError("the Arrow array is broken: an index points behind its dictionary")
    return column
