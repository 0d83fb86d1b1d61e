# cython: language_level=3, boundscheck=False, wraparound=False
# cython: freethreading_compatible=True
"""Calls to a socket that are too short to give up the interpreter for.

socket's own methods let other threads run during each call. A write of a request takes microseconds (48 KiB: 20), but a
thread that computes takes the interpreter in that moment and keeps it for the switch interval of 5 ms: a caller in a
loop of send() would stop the sender at each of the requests that he fills.

Road:    PlaintextTransportLayer -> [socket calls] -> the operating system
Thread:  the thread that polls the selector; the interpreter is held throughout.
Source:  ours.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_SetFromErrno
from libc.errno cimport EINTR, errno
from libc.string cimport memset

cdef extern from *:
    """
    #include <sys/socket.h>
    #include <sys/uio.h>
    #ifndef MSG_NOSIGNAL  /* macOS; Python ignores SIGPIPE anyway */
    #define MSG_NOSIGNAL 0
    #endif
    """
    int MSG_NOSIGNAL

cdef extern from "sys/socket.h" nogil:
    struct iovec:
        void *iov_base
        size_t iov_len

    struct msghdr:
        iovec *msg_iov
        size_t msg_iovlen

    ssize_t c_sendmsg "sendmsg" (int fd, const msghdr *message, int flags)
    ssize_t c_recv "recv" (int fd, void *data, size_t size, int flags)
    int MSG_DONTWAIT

cdef enum:
    MOST_CHUNKS = 64
    MOST_SENT_BYTES = 262144  # 100 us at most; a longer one is worth another thread's while
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
        cdef Py_buffer views[MOST_CHUNKS]
        cdef iovec pieces[MOST_CHUNKS]
        cdef msghdr message
        cdef Py_ssize_t size = 0
        cdef ssize_t sent
        cdef int fd = self.fileno()
        cdef int count = 0
        try:
            for chunk in chunks:
                if count == MOST_CHUNKS:
                    break
                PyObject_GetBuffer(chunk, &views[count], PyBUF_SIMPLE)
                pieces[count].iov_base = views[count].buf
                pieces[count].iov_len = views[count].len
                size += views[count].len
                count += 1
                if size > MOST_SENT_BYTES:
                    break
            else:
                memset(&message, 0, sizeof(message))
                message.msg_iov = pieces
                message.msg_iovlen = count
                while True:
                    sent = c_sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL)
                    if sent >= 0:
                        return sent
                    if errno != EINTR:
                        PyErr_SetFromErrno(OSError)
        finally:
            while count:
                count -= 1
                PyBuffer_Release(&views[count])
        return self.long_send(chunks)

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
