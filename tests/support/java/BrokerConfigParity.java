import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;

import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * The first argument is "broker" or "topic". Alone: one line per setting, "key TAB type TAB default TAB validator";
 * <null> and <required> for no default. With "parse": reads lines "key=value", answers "OK TAB value" or "ERROR".
 */
public class BrokerConfigParity {
    public static void main(String[] arguments) throws Exception {
        ConfigDef table = arguments[0].equals("topic") ? LogConfig.configDefCopy() : AbstractKafkaConfig.CONFIG_DEF;
        if (arguments.length == 1) {
            dump(table);
            return;
        }
        var reader = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = reader.readLine(); line != null; line = reader.readLine()) {
            System.out.println(parse(table, line));
        }
    }

    private static void dump(ConfigDef table) {
        for (ConfigDef.ConfigKey key : table.configKeys().values()) {
            String text = key.defaultValue == ConfigDef.NO_DEFAULT_VALUE ? "<required>"
                : key.defaultValue == null ? "<null>" : ConfigDef.convertToString(key.defaultValue, key.type);
            System.out.println(String.join("\t", key.name, key.type.name(), text, String.valueOf(key.validator)));
        }
    }

    private static String parse(ConfigDef table, String pair) {
        String name = pair.substring(0, pair.indexOf('='));
        ConfigDef.ConfigKey key = table.configKeys().get(name);
        try {
            Object value = ConfigDef.parseType(name, pair.substring(pair.indexOf('=') + 1), key.type);
            if (key.validator != null) {
                key.validator.ensureValid(name, value);
            }
            return "OK\t" + ConfigDef.convertToString(value, key.type);
        } catch (ConfigException refused) {
            return "ERROR";
        }
    }
}
