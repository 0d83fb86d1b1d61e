import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import javax.security.auth.x500.X500Principal;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Reads lines of fields with tabs between them; answers the questions with a line each.
 *
 * <pre>
 * new      super.users  allow.everyone.if.no.acl.found     an authorizer without rules
 * rule     type name pattern principal host operation permission     codes as in the protocol
 * ask      principal address-bytes-in-hex operation type name        "true" or "false"
 * type     principal address-bytes-in-hex operation type             the same, of any resource of a type
 * name     mapping-rules subject-in-hex                              what a certificate's owner is called, in hex; or "none"
 * </pre>
 */
public class AuthorizerMatrix {
    public static void main(String[] arguments) throws Exception {
        var reader = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new StringBuilder();
        StandardAuthorizer authorizer = null;
        for (String line = reader.readLine(); line != null; line = reader.readLine()) {
            String[] fields = line.split("\t", -1);
            switch (fields[0]) {
                case "new" -> {
                    Map<String, Object> configs = new HashMap<>();
                    configs.put("super.users", fields[1]);
                    configs.put("allow.everyone.if.no.acl.found", fields[2]);
                    authorizer = new StandardAuthorizer();
                    authorizer.configure(configs);
                    authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
                    authorizer.completeInitialLoad();
                }
                case "rule" -> authorizer.addAcl(Uuid.randomUuid(), new StandardAcl(
                    ResourceType.fromCode(Byte.parseByte(fields[1])), fields[2],
                    PatternType.fromCode(Byte.parseByte(fields[3])), fields[4], fields[5],
                    AclOperation.fromCode(Byte.parseByte(fields[6])),
                    AclPermissionType.fromCode(Byte.parseByte(fields[7]))));
                case "ask" -> {
                    var resource = new ResourcePattern(ResourceType.fromCode(Byte.parseByte(fields[4])), fields[5],
                        PatternType.LITERAL);
                    var action = new Action(AclOperation.fromCode(Byte.parseByte(fields[3])), resource, 1, true, true);
                    out.append(authorizer.authorize(new Asker(fields[1], fields[2]), List.of(action)).get(0)
                        == AuthorizationResult.ALLOWED).append('\n');
                }
                case "type" -> out.append(authorizer.authorizeByResourceType(new Asker(fields[1], fields[2]),
                    AclOperation.fromCode(Byte.parseByte(fields[3])),
                    ResourceType.fromCode(Byte.parseByte(fields[4]))) == AuthorizationResult.ALLOWED).append('\n');
                case "name" -> out.append(nameOf(fields[1], fields[2])).append('\n');
                default -> throw new IllegalArgumentException(line);
            }
        }
        System.out.print(out);
    }

    private static String nameOf(String rules, String subject) throws Exception {
        String distinguished = new X500Principal(HexFormat.of().parseHex(subject)).getName();
        try {
            String name = SslPrincipalMapper.fromRules(rules).getName(distinguished);
            return HexFormat.of().formatHex(name.getBytes(StandardCharsets.UTF_8));
        } catch (SslPrincipalMapper.NoMatchingRule none) {
            return "none";
        }
    }

    private static final class Asker implements AuthorizableRequestContext {
        private final KafkaPrincipal principal;
        private final InetAddress address;

        Asker(String principal, String address) throws Exception {
            String[] words = principal.split(":", 2);
            this.principal = new KafkaPrincipal(words[0], words[1]);
            this.address = InetAddress.getByAddress(HexFormat.of().parseHex(address));
        }

        @Override
        public String listenerName() {
            return "PLAINTEXT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public KafkaPrincipal principal() {
            return principal;
        }

        @Override
        public InetAddress clientAddress() {
            return address;
        }

        @Override
        public int requestType() {
            return 0;
        }

        @Override
        public int requestVersion() {
            return 0;
        }

        @Override
        public String clientId() {
            return "matrix";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }
}
