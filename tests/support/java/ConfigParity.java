import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;

/**
 * Without arguments: one line per setting, "key TAB type TAB default TAB validator"; <null> and <required> for no default.
 * With "parse": reads lines "key=value TAB key=value ...", the first key being the one that is asked for, and answers
 * "OK TAB value TAB enable.idempotence TAB acks TAB reconnect.backoff.max.ms" or "ERROR TAB message".
 */
public class ConfigParity {
    private static final String SERIALIZER = "org.apache.kafka.common.serialization.ByteArraySerializer";

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 0) {
            dump();
            return;
        }
        var reader = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = reader.readLine(); line != null; line = reader.readLine()) {
            System.out.println(parse(line.split("\t")));
        }
    }

    private static void dump() {
        for (ConfigDef.ConfigKey key : ProducerConfig.configDef().configKeys().values()) {
            String text = key.defaultValue == ConfigDef.NO_DEFAULT_VALUE ? "<required>"
                : key.defaultValue == null ? "<null>" : ConfigDef.convertToString(key.defaultValue, key.type);
            System.out.println(String.join("\t", key.name, key.type.name(), text, String.valueOf(key.validator)));
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
