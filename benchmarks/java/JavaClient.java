import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;

import com.sun.management.OperatingSystemMXBean;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Apache Kafka's own producer under the workload of workload.py: "--name value" pairs in, one line of JSON out.
 *
 * The same code runs for --warm-up-s seconds first, in this JVM and with this producer, so that the measured part meets
 * compiled code, as a service's does. CPU is that of the whole process, the compiler's and the collector's threads too.
 */
public class JavaClient {
    private static final int FIRST_COUNT = 500;  // as in workload.py
    private final Map<String, String> options = new HashMap<>();
    private final byte[][] keys;
    private final byte[][] values;
    private final String topic;
    private final int recordCount;
    private final boolean hasHeader;
    private final long warmUpNs;

    JavaClient(String[] arguments) throws IOException {
        for (int i = 0; i < arguments.length; i += 2) {
            options.put(arguments[i].substring(2), arguments[i + 1]);
        }
        topic = options.get("topic");
        recordCount = Integer.parseInt(options.get("record-count"));
        hasHeader = flag("has-header");
        warmUpNs = (long) (Double.parseDouble(options.get("warm-up-s")) * 1e9);
        int keyCount = Integer.parseInt(options.get("key-count"));
        int valueSizeBytes = Integer.parseInt(options.get("value-size-bytes"));
        byte[] all = Files.readAllBytes(Path.of(options.get("values-file")));
        keys = new byte[keyCount][];
        values = new byte[keyCount][];
        for (int i = 0; i < keyCount; i++) {
            keys[i] = flag("keyed") ? String.format("k%07d", i).getBytes(StandardCharsets.US_ASCII) : null;
            values[i] = Arrays.copyOfRange(all, i * valueSizeBytes, (i + 1) * valueSizeBytes);
        }
    }

    public static void main(String[] arguments) throws Exception {
        JavaClient client = new JavaClient(arguments);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(client.settings(),
                new ByteArraySerializer(), new ByteArraySerializer())) {
            switch (client.options.get("mode")) {
                case "latency" -> System.out.println(client.latency(producer));
                case "transactions" -> System.out.println(client.transactions(producer));
                default -> System.out.println(client.rate(producer));
            }
        }
    }

    private boolean flag(String name) {
        return options.get(name).equals("1");
    }

    private Map<String, Object> settings() {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", options.get("bootstrap-servers"));
        settings.put("acks", "all");
        settings.put("enable.idempotence", true);
        if (options.get("mode").equals("transactions")) {
            settings.put("transactional.id", topic);
        }
        if (!flag("out-of-the-box")) {
            settings.put("linger.ms", options.get("linger-ms"));
            settings.put("batch.size", options.get("batch-size-bytes"));
            settings.put("compression.type", options.get("compression"));
        }
        return settings;
    }

    private String rate(KafkaProducer<byte[], byte[]> producer) {
        long end = System.nanoTime() + warmUpNs;
        do {  // once at least: connected, and every partition's leader has answered
            sendAll(producer, Math.max(FIRST_COUNT, Math.min(recordCount, 50_000)));
        } while (System.nanoTime() < end);
        long cpu = cpuNs();
        long started = System.nanoTime();
        sendAll(producer, recordCount);
        double seconds = (System.nanoTime() - started) / 1e9;
        double cpuSeconds = (cpuNs() - cpu) / 1e9;
        return String.format(Locale.ROOT, "{\"client\": \"java\", \"record_count\": %d, \"seconds\": %.6f, "
            + "\"cpu_seconds\": %.6f, \"peak_memory_bytes\": %d}", recordCount, seconds, cpuSeconds, peakMemoryBytes());
    }

    private ProducerRecord<byte[], byte[]> record(int row) {
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, keys[row], values[row]);
        if (hasHeader) {
            record.headers().add("trace", "0123456789abcdef".getBytes(StandardCharsets.US_ASCII));
        }
        return record;
    }

    private void sendAll(KafkaProducer<byte[], byte[]> producer, int count) {
        AtomicLong stored = new AtomicLong();
        AtomicReference<Exception> failure = new AtomicReference<>();
        Callback callback = (metadata, exception) -> {
            if (exception == null) {
                stored.lazySet(stored.get() + 1);  // one thread runs all callbacks
            } else {
                failure.set(exception);
            }
        };
        for (int i = 0; i < count; i++) {
            int row = i % values.length;
            producer.send(record(row), callback);
        }
        producer.flush();
        if (stored.get() != count) {
            throw new IllegalStateException(stored.get() + " of " + count + " records were stored", failure.get());
        }
    }

    private long[] commitAll(KafkaProducer<byte[], byte[]> producer, int count) {
        int perTransaction = Integer.parseInt(options.get("per-transaction"));
        long[] waits = new long[count / perTransaction];
        for (int transaction = 0, i = 0; transaction < waits.length; transaction++) {
            producer.beginTransaction();
            for (int end = i + perTransaction; i < end; i++) {
                producer.send(record(i % values.length));
            }
            long started = System.nanoTime();
            producer.commitTransaction();
            waits[transaction] = System.nanoTime() - started;
        }
        return waits;
    }

    private String transactions(KafkaProducer<byte[], byte[]> producer) {
        producer.initTransactions();
        long end = System.nanoTime() + warmUpNs;
        do {
            commitAll(producer, Math.max(Integer.parseInt(options.get("per-transaction")), Math.min(recordCount, 50_000)));
        } while (System.nanoTime() < end);
        long cpu = cpuNs();
        long started = System.nanoTime();
        long[] waits = commitAll(producer, recordCount);
        double seconds = (System.nanoTime() - started) / 1e9;
        double cpuSeconds = (cpuNs() - cpu) / 1e9;
        Arrays.sort(waits);
        return String.format(Locale.ROOT, "{\"client\": \"java\", \"record_count\": %d, \"seconds\": %.6f, "
            + "\"cpu_seconds\": %.6f, \"peak_memory_bytes\": %d, \"commit_p50_us\": %.3f, \"commit_p99_us\": %.3f}",
            recordCount, seconds, cpuSeconds, peakMemoryBytes(), at(waits, 0.5), at(waits, 0.99));
    }

    private String latency(KafkaProducer<byte[], byte[]> producer) throws ExecutionException, InterruptedException {
        long end = System.nanoTime() + warmUpNs;
        for (int i = 0; i < FIRST_COUNT || System.nanoTime() < end; i++) {
            int row = i % values.length;
            producer.send(record(row)).get();
        }
        long[] waits = new long[recordCount];
        for (int i = 0; i < recordCount; i++) {
            int row = i % values.length;
            long started = System.nanoTime();
            producer.send(record(row)).get();
            waits[i] = System.nanoTime() - started;
        }
        Arrays.sort(waits);
        return String.format(Locale.ROOT, "{\"client\": \"java\", \"record_count\": %d, \"p50_us\": %.3f, "
            + "\"p99_us\": %.3f, \"p999_us\": %.3f}", recordCount, at(waits, 0.5), at(waits, 0.99), at(waits, 0.999));
    }

    private static double at(long[] ordered, double share) {
        return ordered[Math.min(ordered.length - 1, (int) (share * ordered.length))] / 1000.0;
    }

    private static long cpuNs() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    private static long peakMemoryBytes() {
        try {
            for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
                if (line.startsWith("VmHWM:")) {
                    return Long.parseLong(line.replaceAll("\\D", "")) * 1024;
                }
            }
        } catch (IOException absent) {
            return 0;  // no /proc: not Linux
        }
        return 0;
    }
}
