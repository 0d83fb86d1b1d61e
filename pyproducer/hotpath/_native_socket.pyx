# cython: language_level=3, boundscheck=False, wraparound=False
# cython: freethreading_compatible=True
"""Calls to a socket that are too short to give up the interpreter for.

socket's own methods let other threads run during each call. A write of some hundred bytes takes microseconds, but a
thread that computes takes the interpreter in that moment and keeps it for the switch interval of 5 ms.

Road:    PlaintextTransportLayer -> [socket calls] -> the operating system
Thread:  the thread that polls the selector; the interpreter is held throughout.
Source:  ours.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_SetFromErrno
from libc.errno cimport EINTR, errno
from libc.string cimport memcpy

cdef extern from *:
    """
    #include <sys/socket.h>
    #ifndef MSG_NOSIGNAL  /* macOS; Python ignores SIGPIPE anyway */
    #define MSG_NOSIGNAL 0
    #endif
    """
    int MSG_NOSIGNAL

cdef extern from "sys/socket.h" nogil:
    ssize_t c_send "send" (int fd, const void *data, size_t size, int flags)
    ssize_t c_recv "recv" (int fd, void *data, size_t size, int flags)
    int MSG_DONTWAIT

cdef enum:
    MOST_SENT_BYTES = 16384  # joined on the stack and sent: 5 us; a longer one is worth another thread's while
    MOST_READ_BYTES = 65536


cdef class PromptSocket:
    """The two calls of a non-blocking socket that a plaintext connection needs, as `socket.socket` has them."""

    cdef object fileno
    cdef object long_send
    cdef object long_read

    def __init__(self, sock):
        self.fileno = sock.fileno  # asked each time: a number kept would be another socket's after a close
        self.long_send = sock.sendmsg
        self.long_read = sock.recv_into

    def sendmsg(self, chunks):
        """Write the chunks, or the first part of them; see socket.sendmsg."""
        cdef char joined[MOST_SENT_BYTES]
        cdef Py_ssize_t size = 0
        cdef Py_buffer data
        cdef ssize_t count
        for chunk in chunks:
            PyObject_GetBuffer(chunk, &data, PyBUF_SIMPLE)
            if size + data.len > MOST_SENT_BYTES:
                PyBuffer_Release(&data)
                return self.long_send(chunks)
            memcpy(joined + size, data.buf, data.len)
            size += data.len
            PyBuffer_Release(&data)
        cdef int fd = self.fileno()
        while True:
            count = c_send(fd, joined, size, MSG_DONTWAIT | MSG_NOSIGNAL)
            if count >= 0:
                return count
            if errno != EINTR:
                PyErr_SetFromErrno(OSError)

    def recv_into(self, view):
        """Read what is there, 0 bytes at the end of the stream; see socket.recv_into."""
        cdef Py_buffer space
        cdef ssize_t count
        cdef int fd = self.fileno()
        PyObject_GetBuffer(view, &space, PyBUF_WRITABLE)
        try:
            while space.len <= MOST_READ_BYTES:
                count = c_recv(fd, space.buf, space.len, MSG_DONTWAIT)
                if count >= 0:
                    return count
                if errno != EINTR:
                    PyErr_SetFromErrno(OSError)
        finally:
            PyBuffer_Release(&space)
        return self.long_read(view)
