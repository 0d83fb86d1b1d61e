import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;

import javax.security.auth.login.AppConfigurationEntry;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Without arguments: one line per setting, "key TAB type TAB default TAB validator"; <null> and <required> for no default.
 * With "parse": reads lines "key=value TAB key=value ...", the first key being the one that is asked for, and answers
 * "OK TAB value TAB enable.idempotence TAB acks TAB reconnect.backoff.max.ms" or "ERROR TAB message".
 * With "jaas": reads texts of sasl.jaas.config, a \\u000a in them for a newline, and answers
 * "OK TAB module TAB flag TAB name TAB value ..." with the options by name, their values in hexadecimal UTF-8, or
 * "ERROR TAB message".
 * With "metrics": one line per metric of a producer that has reached nobody, "METRIC TAB group TAB name".
 */
public class ConfigParity {
    private static final String SERIALIZER = "org.apache.kafka.common.serialization.ByteArraySerializer";

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 0) {
            dump();
            return;
        }
        if (arguments[0].equals("metrics")) {
            metrics();
            return;
        }
        var reader = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = reader.readLine(); line != null; line = reader.readLine()) {
            System.out.println(arguments[0].equals("jaas") ? jaas(line) : parse(line.split("\t")));
        }
    }

    private static void dump() {
        for (ConfigDef.ConfigKey key : ProducerConfig.configDef().configKeys().values()) {
            String text = key.defaultValue == ConfigDef.NO_DEFAULT_VALUE ? "<required>"
                : key.defaultValue == null ? "<null>" : ConfigDef.convertToString(key.defaultValue, key.type);
            System.out.println(String.join("\t", key.name, key.type.name(), text, String.valueOf(key.validator)));
        }
    }

    private static void metrics() {
        Map<String, Object> props = Map.of("bootstrap.servers", "127.0.0.1:1", "transactional.id", "parity");
        var producer = new KafkaProducer<>(props, new ByteArraySerializer(), new ByteArraySerializer());
        for (MetricName metric : producer.metrics().keySet()) {
            System.out.println(String.join("\t", "METRIC", metric.group(), metric.name()));
        }
        producer.close(Duration.ZERO);
    }

    private static String jaas(String text) {
        Map<String, Object> props = Map.of("sasl.jaas.config", new Password(text.replace("\\u000a", "\n")));
        try {
            AppConfigurationEntry entry = JaasContext.loadClientContext(props).configurationEntries().get(0);
            var answer = new StringBuilder("OK\t" + entry.getLoginModuleName() + "\t"
                + entry.getControlFlag().toString().replace("LoginModuleControlFlag: ", ""));
            new TreeMap<>(entry.getOptions()).forEach((name, value) -> answer.append("\t").append(name).append("\t")
                .append(HexFormat.of().formatHex(value.toString().getBytes(StandardCharsets.UTF_8))));
            return answer.toString();
        } catch (IllegalArgumentException refused) {
            return "ERROR\t" + refused.getMessage();
        }
    }

    private static String parse(String[] pairs) {
        Map<String, Object> props = new HashMap<>();
        props.put("bootstrap.servers", "localhost:9092");
        props.put("key.serializer", SERIALIZER);
        props.put("value.serializer", SERIALIZER);
        for (String pair : pairs) {
            props.put(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
        }
        try {
            Map<String, ?> values = new ProducerConfig(props).values();
            Object value = values.get(pairs[0].substring(0, pairs[0].indexOf('=')));
            return String.join("\t", "OK", String.valueOf(value), String.valueOf(values.get("enable.idempotence")),
                String.valueOf(values.get("acks")), String.valueOf(values.get("reconnect.backoff.max.ms")));
        } catch (ConfigException refused) {
            return "ERROR\t" + refused.getMessage();
        }
    }
}
