import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * Java's clients through a consumer group and transactions. Arguments: bootstrap servers, topic, copy, number of records.
 *
 * Writes the records to the topic, carries them to the copy in transactions that hold the group's offsets, commits and
 * aborts one transaction more, and prints every value that a read_committed group reads from the copy.
 */
public class GroupsAndTransactions {
    private static final int PER_TRANSACTION = 10_000;
    private static final int EXTRA = 100;
    private static final String STRINGS = "org.apache.kafka.common.serialization.String";
    private final String bootstrapServers;
    private final String topic;
    private final String copy;
    private final int count;
    private final long deadline = System.nanoTime() + Duration.ofMinutes(10).toNanos();  // GIVE_UP_S of patience.py

    GroupsAndTransactions(String[] arguments) {
        bootstrapServers = arguments[0];
        topic = arguments[1];
        copy = arguments[2];
        count = Integer.parseInt(arguments[3]);
    }

    public static void main(String[] arguments) {
        GroupsAndTransactions client = new GroupsAndTransactions(arguments);
        client.produce();
        client.carry();
        client.commitAndAbort();
        client.read(client.count + EXTRA);
    }

    private void produce() {
        try (KafkaProducer<String, String> producer = producer(null)) {
            for (int i = 0; i < count; i++) {
                producer.send(new ProducerRecord<>(topic, "k" + i % 1000, "v" + i));
            }
        }
    }

    private void carry() {
        try (KafkaConsumer<String, String> consumer = consumer("carriers");
                KafkaProducer<String, String> producer = producer("carrier")) {
            consumer.subscribe(List.of(topic));
            producer.initTransactions();
            for (int carried = 0; carried < count;) {
                ConsumerRecords<String, String> records = poll(consumer);
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(new ProducerRecord<>(copy, record.key(), record.value()));
                    offsets.put(new TopicPartition(topic, record.partition()),
                        new OffsetAndMetadata(record.offset() + 1));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                producer.commitTransaction();
                carried += records.count();
            }
        }
    }

    private void commitAndAbort() {
        try (KafkaProducer<String, String> producer = producer("extra")) {
            producer.initTransactions();
            for (String name : List.of("kept", "lost")) {
                producer.beginTransaction();
                for (int i = 0; i < EXTRA; i++) {
                    producer.send(new ProducerRecord<>(copy, name + i));
                }
                producer.flush();
                if (name.equals("kept")) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
    }

    private void read(int expected) {
        StringBuilder found = new StringBuilder();
        try (KafkaConsumer<String, String> consumer = consumer("readers")) {
            consumer.subscribe(List.of(copy));
            for (int read = 0; read < expected;) {
                for (ConsumerRecord<String, String> record : poll(consumer)) {
                    found.append(record.value()).append('\n');
                    read++;
                }
            }
            consumer.commitSync();
        }
        System.out.print(found);
    }

    private ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer) {
        if (System.nanoTime() > deadline) {
            throw new IllegalStateException("the records did not come within a minute");
        }
        return consumer.poll(Duration.ofMillis(200));
    }

    private KafkaProducer<String, String> producer(String transactionalId) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrapServers);
        settings.put("key.serializer", STRINGS + "Serializer");
        settings.put("value.serializer", STRINGS + "Serializer");
        if (transactionalId != null) {
            settings.put("transactional.id", transactionalId);
        }
        return new KafkaProducer<>(settings);
    }

    private KafkaConsumer<String, String> consumer(String group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrapServers);
        settings.put("group.id", group);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");
        settings.put("max.poll.records", PER_TRANSACTION);
        settings.put("key.deserializer", STRINGS + "Deserializer");
        settings.put("value.deserializer", STRINGS + "Deserializer");
        return new KafkaConsumer<>(settings);
    }
}
