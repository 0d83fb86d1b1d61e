import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Utils;

/**
 * Record batches by Kafka's own code.
 *
 * "emit": print batches of every kind as JSON, one a line: name, hex, and what Kafka reads from them.
 * "read": for each line of hex on stdin print what Kafka reads from it, or {"error": ...}.
 */
public class RecordVectors {
    private static final HexFormat HEX = HexFormat.of();
    private static final long T = 1_700_000_000_000L;

    public static void main(String[] args) throws Exception {
        if (args[0].equals("emit"))
            emit();
        else
            read();
    }

    private static byte[] b(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static SimpleRecord record(long timestamp, String key, String value, Header... headers) {
        return new SimpleRecord(timestamp, key == null ? null : b(key), value == null ? null : b(value), headers);
    }

    /** Values that compress well and need several blocks of every codec: tests rebuild them by the same formula. */
    private static SimpleRecord[] large() {
        SimpleRecord[] records = new SimpleRecord[120];
        for (int i = 0; i < records.length; i++)
            records[i] = record(T + i, "key-" + i, ("record-" + i + "-").repeat(150));
        return records;
    }

    private static void emit() {
        SimpleRecord[] plain = {record(T, "key", "value"), record(T + 1, "key2", "value2"), record(T + 1, "", "")};
        SimpleRecord[] nulls = {record(T, null, null), record(T, "k", null), record(T, null, "v")};
        SimpleRecord[] headers = {
            record(T, "k", "v", new RecordHeader("a", b("1")), new RecordHeader("a", null),
                new RecordHeader("", new byte[0]), new RecordHeader("\u00e9\u20ac", b("\u00e9"))),
            record(T + 1, null, null, new RecordHeader("x".repeat(70), b("y".repeat(200))))};
        SimpleRecord[] backwards = {record(T, "k", "1"), record(T - 1000, "k", "2"), record(T + 3_000_000_000L, "k", "3"),
            record(0, "k", "4")};
        SimpleRecord[] sizes = {record(T, "k".repeat(63), "v".repeat(64)), record(T, "k".repeat(64), "v".repeat(8191)),
            record(T, "k".repeat(8192), "v".repeat(16384))};
        vector("plain", MemoryRecords.withRecords(Compression.NONE, plain));
        vector("nulls", MemoryRecords.withRecords(Compression.NONE, nulls));
        vector("headers", MemoryRecords.withRecords(Compression.NONE, headers));
        vector("timestamps backwards", MemoryRecords.withRecords(Compression.NONE, backwards));
        vector("sizes at varint limits", MemoryRecords.withRecords(Compression.NONE, sizes));
        vector("no timestamp", MemoryRecords.withRecords(Compression.NONE, record(-1, "k", "v")));
        vector("idempotent", MemoryRecords.withIdempotentRecords(Compression.NONE, 4711L, (short) 3, 42, plain));
        vector("sequence wraps inside",
            MemoryRecords.withIdempotentRecords(Compression.NONE, 4711L, (short) 3, Integer.MAX_VALUE - 1, plain));
        vector("transactional", MemoryRecords.withTransactionalRecords(Compression.NONE, 4712L, (short) 0, 0, plain));
        vector("in a log", MemoryRecords.withRecords(RecordBatch.MAGIC_VALUE_V2, 1_000_000_000_000L, Compression.NONE,
            TimestampType.CREATE_TIME, 4713L, (short) 1, 7, 12, false, plain));
        vector("log append time", logAppendTime(plain));
        vector("control commit", MemoryRecords.withEndTransactionMarker(500L, T, 12, 4712L, (short) 0,
            new EndTransactionMarker(ControlRecordType.COMMIT, 9)));
        vector("control abort", MemoryRecords.withEndTransactionMarker(501L, T, -1, 4712L, (short) 1,
            new EndTransactionMarker(ControlRecordType.ABORT, 0)));
        vector("compacted", compacted());
        Compression[] codecs = {Compression.gzip().build(), Compression.snappy().build(), Compression.lz4().build(),
            Compression.zstd().build()};
        for (Compression codec : codecs) {
            String name = codec.type().name;
            vector(name, MemoryRecords.withRecords(codec, headers));
            vector(name + " large", MemoryRecords.withRecords(codec, large()));
            vector(name + " transactional",
                MemoryRecords.withTransactionalRecords(codec, 4712L, (short) 5, 17, backwards));
        }
        vector("gzip level 9", MemoryRecords.withRecords(Compression.gzip().level(9).build(), headers));
        vector("lz4 level 12 large", MemoryRecords.withRecords(Compression.lz4().level(12).build(), large()));
        vector("zstd level -5", MemoryRecords.withRecords(Compression.zstd().level(-5).build(), headers));
        vector("two batches", twoBatches(plain, nulls));
    }

    private static MemoryRecords logAppendTime(SimpleRecord... records) {
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(ByteBuffer.allocate(4096), RecordBatch.MAGIC_VALUE_V2,
            Compression.NONE, TimestampType.LOG_APPEND_TIME, 77L, T + 5, RecordBatch.NO_PRODUCER_ID,
            RecordBatch.NO_PRODUCER_EPOCH, RecordBatch.NO_SEQUENCE, false, false, 3, 4096);
        for (SimpleRecord record : records)
            builder.append(record);
        return builder.build();
    }

    /** What the log cleaner leaves: offsets 10, 13 and 17, and a last offset that is no record's. */
    private static MemoryRecords compacted() {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(4096), Compression.NONE,
            TimestampType.CREATE_TIME, 10L);
        builder.appendWithOffset(10, record(T, "a", "1"));
        builder.appendWithOffset(13, record(T + 1, "b", "2"));
        builder.appendWithOffset(17, record(T + 2, "c", "3"));
        builder.overrideLastOffset(20);
        return builder.build();
    }

    private static MemoryRecords twoBatches(SimpleRecord[] first, SimpleRecord[] second) {
        ByteBuffer one = MemoryRecords.withRecords(Compression.NONE, first).buffer();
        ByteBuffer two = MemoryRecords.withRecords(first.length, Compression.NONE, second).buffer();
        ByteBuffer both = ByteBuffer.allocate(one.remaining() + two.remaining()).put(one).put(two);
        both.flip();
        return MemoryRecords.readableRecords(both);
    }

    private static void vector(String name, MemoryRecords records) {
        byte[] bytes = Utils.toArray(records.buffer());
        // Of the large ones only the formula is kept.
        System.out.println("{\"name\": \"" + name + "\", \"hex\": \"" + HEX.formatHex(bytes) + "\", \"batches\": "
            + describe(records, !name.contains("large")) + "}");
    }

    private static void read() throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                System.out.println(describe(MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(line))), true));
            } catch (Exception error) {
                System.out.println("{\"error\": \"" + error.getClass().getSimpleName() + "\"}");
            }
        }
    }

    private static String describe(MemoryRecords records, boolean withRecords) {
        List<String> batches = new ArrayList<>();
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            List<String> described = new ArrayList<>();
            for (Record record : batch)
                described.add(describe(record));
            batches.add("{\"base_offset\": " + batch.baseOffset() + ", \"last_offset\": " + batch.lastOffset()
                + ", \"partition_leader_epoch\": " + batch.partitionLeaderEpoch() + ", \"magic\": " + batch.magic()
                + ", \"crc\": " + batch.checksum() + ", \"codec_id\": " + batch.compressionType().id
                + ", \"timestamp_type\": " + batch.timestampType().id
                + ", \"is_transactional\": " + batch.isTransactional() + ", \"is_control\": " + batch.isControlBatch()
                + ", \"max_timestamp\": " + batch.maxTimestamp() + ", \"producer_id\": " + batch.producerId()
                + ", \"producer_epoch\": " + batch.producerEpoch() + ", \"base_sequence\": " + batch.baseSequence()
                + ", \"last_sequence\": " + batch.lastSequence() + ", \"record_count\": " + batch.countOrNull()
                + ", \"size_bytes\": " + batch.sizeInBytes()
                + (withRecords ? ", \"records\": [" + String.join(", ", described) + "]" : "") + "}");
        }
        return "[" + String.join(", ", batches) + "]";
    }

    private static String describe(Record record) {
        List<String> headers = new ArrayList<>();
        for (Header header : record.headers())
            headers.add("[" + hex(b(header.key())) + ", " + hex(header.value()) + "]");
        return "[" + record.offset() + ", " + record.timestamp() + ", "
            + hex(record.hasKey() ? Utils.toArray(record.key()) : null) + ", "
            + hex(record.hasValue() ? Utils.toArray(record.value()) : null)
            + ", [" + String.join(", ", headers) + "], " + record.sequence() + "]";
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? "null" : "\"" + HEX.formatHex(bytes) + "\"";
    }
}
