# cython: language_level=3
"""The types by which _python_role.py is compiled.

Road:    _python_role.py -> [pxd] -> _native_role
Thread:  as there.
Source:  _python_role.py.
"""


cdef class Role:
    cdef readonly bint is_free
    cdef readonly unsigned long caller
    cdef readonly unsigned long long step_count
    cdef readonly bint is_called
    cdef public bint is_torn
    cdef public bint rings_at_end
    cdef readonly object bell

    cpdef ring(self)
    cdef _open(self)
