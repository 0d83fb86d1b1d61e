import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * One Apache Kafka node for the tests: formats its log folder when it is new, runs the broker, and ends with its parent.
 *
 * Arguments: the properties file, the log folder, the cluster id, feature levels. One JVM does both steps, because starting
 * a second one costs more than the formatting. Standard input is a pipe from the parent: its end means that the parent has died, even
 * by kill -9, and a broker that nobody can stop any more must not stay.
 */
public final class KafkaNode {
    private KafkaNode() {
    }

    public static void main(String[] arguments) throws Exception {
        String properties = arguments[0];
        Path logFolder = Path.of(arguments[1]);
        String clusterId = arguments[2];
        Thread watcher = new Thread(KafkaNode::haltAtEndOfInput, "parent-watcher");
        watcher.setDaemon(true);
        watcher.start();
        if (!Files.exists(logFolder.resolve("meta.properties"))) {
            List<String> format = new ArrayList<>(
                List.of("format", "-t", clusterId, "-c", properties, "--ignore-formatted"));
            for (String feature : Arrays.asList(arguments).subList(3, arguments.length)) {
                format.addAll(List.of("--feature", feature));
            }
            int status = kafka.tools.StorageTool.execute(format.toArray(new String[0]), System.out);
            if (status != 0) {
                System.exit(status);
            }
        }
        kafka.Kafka.main(new String[] {properties});
    }

    private static void haltAtEndOfInput() {
        try {
            while (System.in.read() >= 0) {
                // the parent writes nothing; only the end counts
            }
        } catch (java.io.IOException ignored) {
            // a broken pipe is the same news
        }
        Runtime.getRuntime().halt(3);
    }
}
