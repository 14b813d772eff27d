// The agent that `pulsar-doctor examine --attach` loads into a JVM: it reads the client's own
// numbers, writes them into one file, and ends. It changes nothing, starts no thread, and calls no
// code of the application or of the client: it reads fields.
//
// Agent stays in the JVM, as the loader of its class does. The rest is loaded anew for each look, by
// a loader that is thrown away with it; packages of the JDK are opened for that loader's own module,
// and for as long as it lives. Java 8 and later: what came with modules is asked for by its name.

package pulsardoctor;

import java.io.File;
import java.io.OutputStream;
import java.lang.instrument.Instrumentation;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;

public final class Agent {
    private Agent() {}

    // Lines: milliseconds at most, objects at most, the jar of Walker, the file to write.
    public static void agentmain(String lines, Instrumentation instrumentation) {
        try {
            String[] told = lines.split("\n");
            write(Paths.get(told[3]), answer(told, instrumentation));
        } catch (Throwable failed) { // Nothing of ours may reach the application: no file tells it.
            return;
        }
    }

    private static String answer(String[] told, Instrumentation instrumentation) {
        try {
            return look(told, instrumentation);
        } catch (InvocationTargetException failed) {
            return failure(failed.getCause());
        } catch (Throwable failed) {
            return failure(failed);
        }
    }

    private static String look(String[] told, Instrumentation instrumentation) throws Exception {
        URL[] jar = {new File(told[2]).toURI().toURL()};
        try (URLClassLoader loader = new URLClassLoader(jar, null)) {
            Class<?> walker = Class.forName("pulsardoctor.Walker", true, loader);
            Method look = walker.getDeclaredMethod("look", String[].class, Instrumentation.class);
            look.setAccessible(true);
            return (String) look.invoke(null, told, instrumentation);
        }
    }

    private static String failure(Throwable failed) {
        StackTraceElement[] frames = failed.getStackTrace();
        String why = failed + (frames.length == 0 ? "" : " in " + frames[0]);
        return "{\"format\":1,\"failed\":\"" + why.replaceAll("[^ -~]|[\"\\\\]", "?") + "\"}";
    }

    // Whole or not there: others see it under its name once all is in it.
    private static void write(Path file, String text) throws Exception {
        Path part = Paths.get(file + ".part");
        FileAttribute<Set<PosixFilePermission>> ours =
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"));
        Files.createFile(part, ours);
        try (OutputStream stream = Files.newOutputStream(part)) {
            stream.write(text.getBytes("UTF-8"));
        }
        Files.move(part, file, StandardCopyOption.ATOMIC_MOVE);
    }
}
