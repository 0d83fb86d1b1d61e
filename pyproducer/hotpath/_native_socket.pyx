# cython: language_level=3, boundscheck=False, wraparound=False
# cython: freethreading_compatible=True
"""Calls to a socket that give up the interpreter as seldom as can be.

socket's own methods let other threads run during each call. A write of a request takes microseconds (48 KiB: 20), but a
thread that computes takes the interpreter in that moment and keeps it for the switch interval of 5 ms: a caller in a
loop of send() would stop the sender at each of the requests that he fills. And a request of 1 MiB does not fit into a
socket (send.buffer.bytes): written through the selector it goes out in five or six pieces, each of which costs those
5 ms, 70 MB/s in all. So a long one is written to its end in one go, without the interpreter, as long as the peer reads.

Road:    PlaintextTransportLayer -> [socket calls] -> the operating system
Thread:  the thread that polls the selector; the interpreter is held but for a long write.
Source:  ours.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_SetFromErrno
from libc.errno cimport EAGAIN, EINTR, errno
from libc.string cimport memset
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

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

cdef extern from "poll.h" nogil:
    struct pollfd:
        int fd
        short events
        short revents

    int c_poll "poll" (pollfd *fds, unsigned long count, int timeout_ms)
    short POLLOUT

cdef enum:
    MOST_CHUNKS = 256
    MOST_SENT_BYTES = 262144  # 100 us at most; a longer one is worth another thread's while
    MOST_READ_BYTES = 65536
    PATIENCE_MS = 2  # for a peer that reads: other connections wait meanwhile
    LONGEST_WRITE_NS = 20000000


cdef long long now_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <long long> now.tv_sec * 1000000000 + now.tv_nsec


cdef ssize_t write_once(int fd, iovec *pieces, int count) noexcept nogil:
    """Write what the socket takes; return how many bytes that was, or -1, and errno tells."""
    cdef msghdr message
    cdef ssize_t sent
    memset(&message, 0, sizeof(message))
    message.msg_iov = pieces
    message.msg_iovlen = count
    while True:
        sent = c_sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL)
        if sent >= 0 or errno != EINTR:
            return sent


cdef ssize_t write_on(int fd, iovec *pieces, int count, ssize_t sent, ssize_t size, bint *is_slow) noexcept nogil:
    """Write the rest of so many bytes, as long as the peer reads; return how many are sent in all, or -1.

    What is sent is told before an error is, which the next call meets again.
    """
    cdef pollfd writable
    cdef ssize_t written = sent  # of these pieces, since they were last moved on
    cdef long long end_ns = now_ns() + LONGEST_WRITE_NS
    writable.fd = fd
    writable.events = POLLOUT
    while now_ns() < end_ns:
        while count and written >= <ssize_t> pieces.iov_len:
            written -= pieces.iov_len
            pieces += 1
            count -= 1
        pieces.iov_base = <char *> pieces.iov_base + written
        pieces.iov_len -= written
        if c_poll(&writable, 1, 0 if is_slow[0] else PATIENCE_MS) != 1:
            is_slow[0] = True
            break
        written = write_once(fd, pieces, count)
        if written < 0:
            return sent if sent else -1
        sent += written
        if sent == size:
            break
    return sent


cdef class PromptSocket:
    """The two calls of a non-blocking socket that a plaintext connection needs, as `socket.socket` has them."""

    cdef object fileno
    cdef object many_send
    cdef object long_read
    cdef bint is_slow  # the peer did not read in time: nothing waits for it until it takes all of a write at once

    def __init__(self, sock):
        self.fileno = sock.fileno  # asked each time: a number kept would be another socket's after a close
        self.many_send = sock.sendmsg
        self.long_read = sock.recv_into

    def sendmsg(self, chunks):
        """Write the chunks, or the first part of them; see socket.sendmsg. A peer that reads is waited for, 20 ms."""
        cdef Py_buffer views[MOST_CHUNKS]
        cdef iovec pieces[MOST_CHUNKS]
        cdef ssize_t size = 0
        cdef ssize_t sent
        cdef int fd = self.fileno()
        cdef int count = 0
        cdef int index
        cdef bint is_slow = self.is_slow
        try:
            for chunk in chunks:
                if count == MOST_CHUNKS:
                    return self.many_send(chunks)
                PyObject_GetBuffer(chunk, &views[count], PyBUF_SIMPLE)
                pieces[count].iov_base = views[count].buf
                pieces[count].iov_len = views[count].len
                size += views[count].len
                count += 1
            sent = write_once(fd, pieces, count) if size <= MOST_SENT_BYTES else 0
            if 0 <= sent < size:
                with nogil:
                    sent = write_on(fd, pieces, count, sent, size, &is_slow)
            self.is_slow = is_slow and sent < size
            if sent < 0:
                PyErr_SetFromErrno(OSError)
            if sent == 0 and size:
                raise BlockingIOError(EAGAIN, "the socket is full")
            return sent
        finally:
            for index in range(count):
                PyBuffer_Release(&views[index])

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
