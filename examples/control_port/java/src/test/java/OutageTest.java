import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;

/** A Java program meets a broker in trouble. */
class OutageTest {
    private static final String CONTROL = System.getenv().getOrDefault("CONTROL", "http://127.0.0.1:9099");
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Make a call of the control port; return its result. */
    private static JsonNode ask(String word, Map<String, ?> arguments) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(CONTROL + "/" + word))
            .POST(HttpRequest.BodyPublishers.ofString(JSON.writeValueAsString(arguments))).build();
        HttpResponse<String> answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        assertEquals(200, answer.statusCode(), answer.body());
        return JSON.readTree(answer.body()).get("result");
    }

    @Test
    void thirdProduceIsRefusedAndSentAgain() throws Exception {
        String topic = "java-" + System.nanoTime();
        ask("create_topic", Map.of("name", topic));
        int fault = ask("faults/on", Map.of("api", "Produce", "topic", topic, "after", 2,
            "do", Map.of("error", Map.of("code", "NOT_LEADER_OR_FOLLOWER")))).get("fault").asInt();

        String servers = ask("health", Map.of()).get("bootstrap_servers").get("PLAINTEXT").get(0).asText();
        Map<String, Object> settings = Map.of("bootstrap.servers", servers, "key.serializer", StringSerializer.class,
            "value.serializer", StringSerializer.class);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            for (int number = 0; number < 4; number++) {
                producer.send(new ProducerRecord<>(topic, String.valueOf(number))).get();
            }
        }

        assertEquals(1, ask("faults/" + fault + "/count", Map.of()).asInt());
        assertEquals(4, ask("log_end_offsets", Map.of("topic", topic)).get("0").asInt());
    }
}
