# cython: language_level=3
"""The compiled twin of _python_role.py, which is the definition.

What makes it worth compiling: signals are handled, and exceptions from outside raised, between lines of Python only. So
here nothing can come between taking the role, calling the step, and giving the role back.

Road:    beside it.
Thread:  as in _python_role.py.
Source:  _python_role.py.
"""

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident()

IS_SAFE = True


cdef class Role:
    """See _python_role.py."""

    cdef readonly bint is_free
    cdef readonly unsigned long caller
    cdef readonly unsigned long long step_count
    cdef public bint is_torn
    cdef public object bell

    def run(self, step, outcome, deadline_ms):
        """Take one step as a caller, if the role is free; see _python_role.py."""
        cdef bint is_all_done = False
        if not self.is_free:
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
            if not is_all_done:
                self.ring()
        return is_all_done

    cpdef ring(self):
        """Wake the thread, if it stands aside."""
        bell = self.bell
        if bell is not None and bell.locked():
            bell.release()

    def stand_aside(self, bell):
        """Give the role to the next caller, or leave it to the one who has it; the thread sleeps in `bell`."""
        self.bell = bell
        if not self.caller:
            self.is_free = True

    def take_back(self):
        """Take the role for the thread; False while a caller has it."""
        if self.caller:
            return False
        self.is_free = False
        self.bell = None
        return True
