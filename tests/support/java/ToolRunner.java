// Runs the main methods of Kafka's tools one after the other in one JVM: its start is most of what a tool takes.
//
// Standard input:  for each run the count of its arguments, these (the first is the main class), and its standard input,
//                  each as a length and bytes of UTF-8; the end of it ends this.
// Standard output: for each run its exit code, and as length and bytes what it printed. Numbers have four bytes.

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;

import org.apache.kafka.common.utils.Exit;

public final class ToolRunner {
    /** Unwinds the tool that asked for the end of the process. */
    private static final class Exited extends Error {
        private static final long serialVersionUID = 1L;

        Exited() {
            super(null, null, false, false);
        }
    }

    // One for all runs: whoever logs keeps the stream that it saw first.
    private static final ByteArrayOutputStream PRINTED = new ByteArrayOutputStream();
    private static final AtomicReference<Integer> STATUS = new AtomicReference<>();
    private static volatile int printedBeforeExit;
    private static final List<Runnable> HOOKS = new ArrayList<>();

    public static void main(String[] unused) throws Exception {
        DataInputStream requests = new DataInputStream(new BufferedInputStream(System.in));
        DataOutputStream answers = new DataOutputStream(new BufferedOutputStream(System.out));
        PrintStream printer = new PrintStream(PRINTED, true, StandardCharsets.UTF_8);
        System.setOut(printer);
        System.setErr(printer);
        Exit.setExitProcedure(ToolRunner::exit);
        Exit.setHaltProcedure(ToolRunner::exit);
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        while (true) {
            int count;
            try {
                count = requests.readInt();
            } catch (EOFException end) {
                Runtime.getRuntime().halt(0); // whatever threads a tool has left
                return;
            }
            String[] command = new String[count];
            for (int index = 0; index < count; index++) {
                command[index] = new String(read(requests), StandardCharsets.UTF_8);
            }
            System.setIn(new ByteArrayInputStream(read(requests)));
            run(command[0], Arrays.copyOfRange(command, 1, count));
            answers.writeInt(STATUS.get() == null ? 0 : STATUS.get());
            answers.writeInt(PRINTED.size());
            PRINTED.writeTo(answers);
            answers.flush();
            PRINTED.reset();
        }
    }

    private static void exit(int status, String message) {
        if (STATUS.compareAndSet(null, status)) {
            printedBeforeExit = PRINTED.size(); // a tool that catches Throwable goes on, says so, and asks again
        }
        throw new Exited();
    }

    private static byte[] read(DataInputStream requests) throws IOException {
        byte[] bytes = new byte[requests.readInt()];
        requests.readFully(bytes);
        return bytes;
    }

    private static void run(String mainClass, String[] arguments) throws Exception {
        STATUS.set(null);
        HOOKS.clear();
        try {
            Class.forName(mainClass).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException failed) {
            if (!(failed.getCause() instanceof Exited)) {
                failed.getCause().printStackTrace();
                if (STATUS.compareAndSet(null, 1)) {
                    printedBeforeExit = PRINTED.size();
                }
            }
        }
        if (STATUS.get() != null && PRINTED.size() > printedBeforeExit) {
            byte[] printed = PRINTED.toByteArray();
            PRINTED.reset();
            PRINTED.write(printed, 0, printedBeforeExit);
        }
        for (Runnable hook : HOOKS) {
            hook.run();
        }
    }
}
