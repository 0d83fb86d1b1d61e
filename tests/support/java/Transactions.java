import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;

/**
 * Arguments: bootstrap servers, topic with two partitions, group. Runs five transactions with Java's producer, every
 * other one aborted, each with an offset of the group; then a second producer of the same id fences the first. Prints
 * "committed VALUE" for what a read_committed consumer reads, "offset N" for the group, "fenced" for the first producer.
 */
public class Transactions {
    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0], topic = arguments[1], group = arguments[2];
        KafkaProducer<String, String> producer = producer(servers, topic);
        producer.initTransactions();
        for (int number = 0; number < 5; number++) {
            producer.beginTransaction();
            for (int index = 0; index < 10; index++)
                producer.send(new ProducerRecord<>(topic, index % 2, null, number + "-" + index));
            producer.sendOffsetsToTransaction(
                Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(100 + number)), new ConsumerGroupMetadata(group));
            producer.flush(); // an abort drops what was not sent
            if (number % 2 == 0)
                producer.commitTransaction();
            else
                producer.abortTransaction();
        }
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(topic, 0, null, "zombie")).get();
        try (KafkaProducer<String, String> second = producer(servers, topic)) {
            second.initTransactions();
            second.beginTransaction();
            second.send(new ProducerRecord<>(topic, 0, null, "living"));
            second.commitTransaction();
        }
        try {
            producer.commitTransaction();
        } catch (ProducerFencedException | InvalidProducerEpochException fenced) {
            System.out.println("fenced");
        }
        producer.close(Duration.ZERO);
        read(servers, topic, group);
    }

    private static KafkaProducer<String, String> producer(String servers, String transactionalId) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("transactional.id", transactionalId);
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("max.block.ms", "20000");
        return new KafkaProducer<>(settings);
    }

    private static void read(String servers, String topic, String group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("group.id", group);
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", "read_committed");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            List<TopicPartition> partitions = List.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1));
            System.out.println("offset " + consumer.committed(Set.of(partitions.get(0))).get(partitions.get(0)).offset());
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            long deadline = System.currentTimeMillis() + 600000;  // GIVE_UP_S of patience.py
            List<String> found = new ArrayList<>();
            while (partitions.stream().anyMatch(one -> consumer.position(one) < ends.get(one))
                    && System.currentTimeMillis() < deadline)
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200)))
                    found.add(record.value());
            found.stream().sorted().forEach(value -> System.out.println("committed " + value));
        }
    }
}
