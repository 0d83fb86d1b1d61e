# cython: language_level=3
"""The types by which _python_ledger.py is compiled.

Road:    _python_ledger.py -> [pxd] -> _native_ledger
Thread:  as there.
Source:  _python_ledger.py.
"""

cimport cython

cdef long long _SLOT, _LATE, _ORDER, _CALLBACK, _CODEC, _REASON_COUNT, _BUCKET_COUNT
cdef long long _TIMELINE_LENGTH, _SAME_MS, _WIDTH, _MOST


@cython.final
cdef class Histogram:
    cdef long long[::1] _counts
    cdef readonly long long count
    cdef readonly long long total
    cdef public long long peak

    @cython.locals(shift=cython.longlong, index=cython.longlong)
    cpdef add(self, long long value)


@cython.final
cdef class Timeline:
    cdef long long[::1] _from
    cdef long long[::1] _to
    cdef long long[::1] _reason
    cdef long long _used

    @cython.locals(last=cython.longlong)
    cpdef note(self, long long reason, long long from_ms, long long to_ms)
    @cython.locals(best=cython.longlong, best_ms=cython.longlong, reason=cython.longlong, held_ms=cython.longlong,
                   oldest=cython.longlong)
    cpdef long long main_reason(self, long long from_ms, long long to_ms)
    @cython.locals(held_ms=cython.longlong, back=cython.longlong, index=cython.longlong, begin=cython.longlong,
                   end=cython.longlong)
    cpdef long long overlap_ms(self, long long reason, long long from_ms, long long to_ms)


@cython.final
@cython.freelist(256)
cdef class Story:
    cdef public long long opened_ms
    cdef public long long due_ms
    cdef public long long first_sent_ms
    cdef public long long sent_ms
    cdef public long long memory_ms
    cdef public long long room_ms
    cdef public long long room_reason
    cdef public long long linger_ms
    cdef public long long wait_ms
    cdef public long long reason
    cdef public long long codec_us
    cdef public bint is_told
    cdef public NodeRow node

    cpdef follow(self, Story whole)


@cython.final
cdef class NodeRow:
    cdef readonly long long node_id
    cdef public long long request_total
    cdef public long long response_total
    cdef public long long produce_total
    cdef public long long produce_batch_total
    cdef public long long produce_ended_total
    cdef public long long produce_ms_total
    cdef public long long outgoing_byte_total
    cdef public long long incoming_byte_total
    cdef public long long request_size_max
    cdef public long long connection_creation_total
    cdef public long long connection_close_total
    cdef public long long connection_failed_total
    cdef public long long throttle_ms_total
    cdef public long long throttle_max
    cdef public long long floor_ms
    cdef public long long certificate_ends_s
    cdef readonly Histogram latency
    cdef readonly Timeline held

    cpdef on_answer(self, long long latency_ms, long long size_bytes, long long throttle_ms)
    cpdef on_request(self, long long size_bytes)


@cython.final
cdef class TopicRow:
    cdef readonly object topic
    cdef public long long record_send_total
    cdef public long long record_error_total
    cdef public long long record_retry_total
    cdef public long long byte_total
    cdef public long long raw_byte_total
    cdef public long long batch_total
    cdef readonly Histogram delivery


@cython.final
cdef class Ledger:
    cdef long long _capacity
    cdef long long _most_topics
    cdef object _others
    cdef int[::1] _columns
    cdef long long[::1] _ended
    cdef readonly list places
    cdef public long long linger_ms
    cdef public long long now_ms
    cdef public long long tell_ms
    cdef public long long tells_from_ms
    cdef public long long compresses_from_ms
    cdef readonly long long ended_total
    cdef readonly long long stored_batch_total
    cdef readonly long long stored_record_total
    cdef readonly long long stored_byte_total
    cdef readonly long long raw_byte_total
    cdef readonly Timeline sender
    cdef readonly Timeline metadata
    cdef readonly dict topics
    cdef readonly Histogram delivery
    cdef readonly Histogram queue
    cdef long long[::1] stage_ms

    cpdef TopicRow topic_row(self, object topic)
    cpdef waited_outside(self, Story story, long long now_ms)
    @cython.locals(count=cython.longlong, share_us=cython.longlong, sent_ms=cython.longlong, begin_ms=cython.longlong,
                   due_ms=cython.longlong, held_by=cython.longlong, busy_with=cython.longlong, story=Story)
    cpdef on_sent(self, NodeRow node, object batches, long long now_ms, long long codec_ms)
    @cython.locals(size_bytes=cython.longlong, ended_ms=cython.longlong,
                   node_id=cython.longlong, floor_ms=cython.longlong, wire_ms=cython.longlong,
                   busy_ms=cython.longlong, retry_ms=cython.longlong, wait_ms=cython.longlong,
                   linger_ms=cython.longlong, node=NodeRow, life_ms=cython.longlong, slot=cython.longlong,
                   base=cython.longlong, row=TopicRow)
    cpdef on_end(self, Story story, object place, object encoded, long long records, long long attempts,
                 long long raw_bytes, bint is_stored)
    cdef void _put(self, long long base, long long column, long long value) noexcept
