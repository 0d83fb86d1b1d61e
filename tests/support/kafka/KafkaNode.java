import java.nio.file.Files;
import java.nio.file.Path;

/**
 * One Apache Kafka node for the tests: formats its log folder when it is new, runs the broker, and ends with its parent.
 *
 * Arguments: the properties file, the log folder, the cluster id. One JVM does both steps, because starting a second one
 * costs more than the formatting. Standard input is a pipe from the parent: its end means that the parent has died, even
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
            int status = kafka.tools.StorageTool.execute(
                new String[] {"format", "-t", clusterId, "-c", properties, "--ignore-formatted"}, System.out);
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
