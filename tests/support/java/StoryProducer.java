import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Java's idempotent producer, told what to do on standard input, one line each:
 *
 *   open SERVERS TOPIC        a new producer, in place of the one before
 *   send VALUE TIMESTAMP      to partition 0; a timestamp of -1 is none
 *   close                     waits for 2 s at most
 *
 * It prints "told VALUE OFFSET" or "told VALUE failed ERROR" for each record, "closed" behind close; other lines are
 * its logging.
 */
public class StoryProducer {
    public static void main(String[] arguments) throws Exception {
        KafkaProducer<String, String> producer = null;
        String topic = null;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "open":
                    topic = words[2];
                    producer = producer(words[1]);
                    break;
                case "send":
                    send(producer, topic, words[1], Long.parseLong(words[2]));
                    break;
                case "close":
                    producer.close(Duration.ofSeconds(2));
                    print("closed");
                    break;
                default:
                    throw new IllegalArgumentException(line);
            }
        }
        System.exit(0);
    }

    private static void send(KafkaProducer<String, String> producer, String topic, String value, long timestamp) {
        producer.send(new ProducerRecord<>(topic, 0, timestamp < 0 ? null : timestamp, null, value), (metadata, error) ->
            print("told " + value + " " + (error == null ? "" + metadata.offset() : "failed " + error.getClass().getSimpleName())));
    }

    private static synchronized void print(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static KafkaProducer<String, String> producer(String servers) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("linger.ms", "0");
        settings.put("retry.backoff.ms", "20");
        settings.put("retry.backoff.max.ms", "40");
        settings.put("reconnect.backoff.ms", "20");
        settings.put("reconnect.backoff.max.ms", "40");
        settings.put("request.timeout.ms", "5000");
        settings.put("delivery.timeout.ms", "20000");
        settings.put("enable.metrics.push", "false");
        return new KafkaProducer<>(settings);
    }
}
