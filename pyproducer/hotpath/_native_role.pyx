# cython: language_level=3
# cython: freethreading_compatible=True
"""The compiled twin of _python_role.py, which is the definition.

What makes it worth compiling: signals are handled, and exceptions from outside raised, between lines of Python only. So
here nothing can come between taking the role, calling the step, and giving the role back.

Road:    beside it.
Thread:  as in _python_role.py.
Source:  _python_role.py.
"""

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident()

cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    #define HAS_GIL 0
    #else
    #define HAS_GIL 1
    #endif
    """
    bint HAS_GIL

# Without the GIL two callers could find the role free in the same moment, so the thread never stands aside there.
ROLE_IS_SAFE = bool(HAS_GIL)


cdef class Role:
    """See _python_role.py."""

    cdef readonly bint is_free
    cdef readonly unsigned long caller
    cdef readonly unsigned long long step_count
    cdef readonly bint is_called
    cdef public bint is_torn
    cdef public bint rings_at_end
    cdef readonly object bell

    def run(self, step, outcome, deadline_ms):
        """Take one step as a caller, if the role is free; see _python_role.py."""
        cdef bint is_all_done = False
        if not self.is_free or self.is_called:
            return False
        self.is_free = False
        self.caller = PyThread_get_thread_ident()
        self.step_count += 1
        try:
            is_all_done = step(outcome, deadline_ms) is True
        except BaseException:
            self.is_torn = True
            raise
        finally:
            self.caller = 0
            self.is_free = True
            if not is_all_done or self.is_called:
                self.ring()
            elif self.rings_at_end:
                self._open()
        return is_all_done

    cpdef ring(self):
        """Call the thread, if it stands aside: from now on no step begins until it is back."""
        if self.bell is not None:
            self.is_called = True
            self._open()

    cdef _open(self):
        bell = self.bell
        if bell is not None and bell.locked():
            bell.release()

    def stand_aside(self, bell):
        """Give the role to callers; the thread sleeps in `bell`."""
        self.bell = bell
        self.is_free = True

    def take_back(self):
        """Take the role for the thread; False while a caller has it."""
        if self.caller:
            return False
        self.is_free = False
        self.is_called = False
        self.rings_at_end = False
        self.bell = None
        return True
