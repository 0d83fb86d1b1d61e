# cython: language_level=3, boundscheck=False, wraparound=False
# cython: freethreading_compatible=True
"""Calls to a socket that give up the interpreter as seldom as can be.

socket's own methods let other threads run during each call. A write of a request takes microseconds (48 KiB: 20), but a
thread that computes takes the interpreter in that moment and keeps it for the switch interval of 5 ms: a caller in a
loop of send() would stop the sender at each of the requests that he fills. And a request of 1 MiB does not fit into a
socket (send.buffer.bytes): written through the selector it goes out in five or six pieces, each of which costs those
5 ms, 70 MB/s in all. So a long one is written on in one go, without the interpreter, as long as the peer reads and no
other connection has something to write, whose socket would run empty meanwhile.

Road:    PlaintextTransportLayer -> [socket calls] -> the operating system
Thread:  the thread that polls the selector; the interpreter is held but for a long write.
Source:  ours.
"""

import os

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_SetFromErrno
from libc.errno cimport EAGAIN, EINTR, EPIPE, errno
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
    short POLLERR
    short POLLHUP
    short POLLOUT

cdef enum:
    MOST_CHUNKS = 256
    MOST_SENT_BYTES = 262144  # 100 us at most; a longer one is worth another thread's while
    MOST_READ_BYTES = 65536
    PATIENCE_MS = 2  # for a peer that reads: other connections wait meanwhile
    LONGEST_WRITE_NS = 5000000  # as long as another thread keeps the interpreter


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


cdef ssize_t write_on(int fd, iovec *pieces, int count, ssize_t sent, ssize_t size, bint *is_slow,
                      int *error) noexcept nogil:
    """Write the rest of so many bytes, as long as the peer reads; return how many are sent in all, or -1.

    An error behind some progress is left for the next call, or noted for it: the system tells it once.
    """
    cdef pollfd writable
    cdef ssize_t written = sent  # of these pieces, since they were last moved on
    cdef long long end_ns = now_ns() + LONGEST_WRITE_NS
    cdef int ready
    writable.fd = fd
    writable.events = POLLOUT
    while now_ns() < end_ns:
        while count and written >= <ssize_t> pieces.iov_len:
            written -= pieces.iov_len
            pieces += 1
            count -= 1
        pieces.iov_base = <char *> pieces.iov_base + written
        pieces.iov_len -= written
        written = 0
        ready = c_poll(&writable, 1, 0 if is_slow[0] else PATIENCE_MS)
        if ready < 0 and errno == EINTR:
            continue
        if ready != 1:
            is_slow[0] = True
            break
        if sent and writable.revents & (POLLERR | POLLHUP):
            break
        written = write_once(fd, pieces, count)
        if written < 0:
            if errno == EAGAIN:
                written = 0
                continue
            if not sent:
                return -1
            error[0] = errno
            break
        sent += written
        if sent == size:
            break
    return sent


cdef class PromptSocket:
    """The calls of a non-blocking socket that a plaintext connection needs, as `socket.socket` has them.

    Nobody but the thread that calls may close the socket: a write without the interpreter keeps its number meanwhile.
    """

    cdef object fileno
    cdef object many_send
    cdef object long_read
    cdef bint is_slow  # the peer did not read in time: nothing waits for it until it takes all of a write at once
    cdef int error  # met behind some progress, and not raised yet

    def __init__(self, sock):
        self.fileno = sock.fileno  # asked each time: a number kept would be another socket's after a close
        self.many_send = sock.sendmsg
        self.long_read = sock.recv_into

    def sendmsg(self, chunks):
        """Write the chunks, or the first part of them; see socket.sendmsg."""
        return self.send(chunks, False)

    def sendmsg_on(self, chunks):
        """Do as sendmsg, but go on as long as the peer reads: it is waited for, 2 ms at a time and 5 in all."""
        return self.send(chunks, True)

    cdef send(self, chunks, bint goes_on):
        cdef Py_buffer views[MOST_CHUNKS]
        cdef iovec pieces[MOST_CHUNKS]
        cdef ssize_t size = 0
        cdef ssize_t sent = 0
        cdef int fd = self.fileno()
        cdef int count = 0
        cdef int index
        cdef bint is_slow = self.is_slow
        cdef int error = self.error
        if error:
            self.error = 0
            raise OSError(error, os.strerror(error))
        try:
            for chunk in chunks:
                if count == MOST_CHUNKS:
                    return self.many_send(chunks)
                PyObject_GetBuffer(chunk, &views[count], PyBUF_SIMPLE)
                pieces[count].iov_base = views[count].buf
                pieces[count].iov_len = views[count].len
                size += views[count].len
                count += 1
            if size <= MOST_SENT_BYTES or fd < 0:
                sent = write_once(fd, pieces, count)
            elif not goes_on:
                with nogil:
                    sent = write_once(fd, pieces, count)
            if goes_on and 0 <= sent < size:
                with nogil:
                    sent = write_on(fd, pieces, count, sent, size, &is_slow, &error)
                self.is_slow = is_slow and sent < size
                self.error = error
            if sent < 0:
                PyErr_SetFromErrno(OSError)
            if sent == 0 and size:
                raise BlockingIOError(EAGAIN, os.strerror(EAGAIN))
            return sent
        finally:
            for index in range(count):
                PyBuffer_Release(&views[index])

    def recv_into(self, view):
        """Read what is there, 0 bytes at the end of the stream; see socket.recv_into."""
        cdef Py_buffer space
        cdef ssize_t count = -1
        cdef int fd = self.fileno()
        PyObject_GetBuffer(view, &space, PyBUF_WRITABLE)
        try:
            while space.len <= MOST_READ_BYTES:
                count = c_recv(fd, space.buf, space.len, MSG_DONTWAIT)
                if count >= 0:
                    break
                if errno != EINTR:
                    PyErr_SetFromErrno(OSError)
        finally:
            PyBuffer_Release(&space)
        if count < 0:
            count = self.long_read(view)
        if count == 0 and self.error and self.error != EPIPE:
            # A write has met what ended the stream, and the system tells it once.
            error, self.error = self.error, 0
            raise OSError(error, os.strerror(error))
        return count
