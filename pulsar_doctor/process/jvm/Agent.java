// The agent that `pulsar-doctor examine --attach` loads into a JVM: it reads the client's own
// numbers, writes them into one file, and ends. It changes nothing, starts no thread, and calls no
// code of the application or of the client: it reads fields.
//
// Agent stays in the JVM, as the loader of its class does. Walker is loaded anew for each look, by a
// loader that is thrown away with it; packages of the JDK are opened for that loader's own module,
// and for as long as it lives. Java 8 and later: what came with modules is asked for by its name.

package pulsardoctor;

import java.io.File;
import java.io.OutputStream;
import java.lang.instrument.Instrumentation;
import java.lang.ref.Reference;
import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.InetSocketAddress;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ThreadPoolExecutor;

public final class Agent {
    private Agent() {}

    // Lines: milliseconds at most, objects at most, the jar of Walker, the file to write.
    public static void agentmain(String lines, Instrumentation instrumentation) {
        try {
            String[] told = lines.split("\n");
            URL[] jar = {new File(told[2]).toURI().toURL()};
            try (URLClassLoader loader = new URLClassLoader(jar, null)) {
                Class<?> walker = Class.forName("pulsardoctor.Walker", true, loader);
                Method look = walker.getDeclaredMethod("look", String[].class, Instrumentation.class);
                look.setAccessible(true);
                look.invoke(null, told, instrumentation);
            }
        } catch (Throwable failed) { // Nothing of ours may reach the application: no file tells it.
            return;
        }
    }
}

// Walks from the threads through what is the JDK's, Netty's and the Pulsar client's, for consumers.
final class Walker {
    private static final String[] NEAR = {
        "pulsar.client.impl.", "netty.channel.", "netty.util.", "netty.handler.",
        "pulsar.client.util.", "pulsar.common.protocol.", "pulsar.common.util.collections."
    };
    private static final String[] FAR = {
        "java.lang.Thread", "java.util.", "sun.nio.ch.", "java.nio.channels."
    };
    private static final String[] NEVER = {
        "MessageImpl", "MessageIdImpl", "netty.util.Recycler", "netty.util.internal.",
        "netty.util.ResourceLeak", "java.lang.ThreadLocal", "java.lang.ThreadGroup",
        "java.util.zip.", "java.util.jar.", "java.util.logging.", "java.util.regex."
    };
    private static final Field[] NONE = {};
    private static final long GRACE_NANOS = 200000000L; // for telling what was found in time

    private final Instrumentation instrumentation;
    private final long deadline;
    private final int most;
    private final Map<Object, Boolean> seen = new IdentityHashMap<>();
    private final Map<Class<?>, Field[]> references = new HashMap<>();
    private final Map<Class<?>, Map<String, Field>> byName = new HashMap<>();
    private final Map<Class<?>, Integer> kinds = new HashMap<>();
    private final Map<String, Boolean> opened = new HashMap<>();
    private final ArrayDeque<Object> near = new ArrayDeque<>();
    private final ArrayDeque<Object> far = new ArrayDeque<>();
    private final List<Object> consumers = new ArrayList<>();
    private final StringBuilder out = new StringBuilder(8192);
    private List<String> missing = new ArrayList<>();
    private String ended = "all";

    private Walker(Instrumentation instrumentation, long milliseconds, int most) {
        this.instrumentation = instrumentation;
        this.deadline = System.nanoTime() + milliseconds * 1000000L;
        this.most = most;
    }

    static void look(String[] told, Instrumentation instrumentation) throws Exception {
        long began = System.nanoTime();
        Walker walker =
                new Walker(instrumentation, Long.parseLong(told[0]), Integer.parseInt(told[1]));
        walker.walk();
        walker.tell(began);
        write(Paths.get(told[3]), walker.out.toString());
    }

    // Whole or not there: others see it under its name once all is in it.
    private static void write(Path file, String text) throws Exception {
        Path part = Paths.get(file + ".part");
        FileAttribute<Set<java.nio.file.attribute.PosixFilePermission>> ours =
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"));
        Files.createFile(part, ours);
        try (OutputStream stream = Files.newOutputStream(part)) {
            stream.write(text.getBytes("UTF-8"));
        }
        Files.move(part, file, StandardCopyOption.ATOMIC_MOVE);
    }

    private void walk() {
        ThreadGroup group = Thread.currentThread().getThreadGroup();
        while (group.getParent() != null) {
            group = group.getParent();
        }
        Thread[] threads = new Thread[2 * group.activeCount() + 64];
        int count = group.enumerate(threads);
        for (int at = 0; at < count; at++) {
            meet(threads[at]);
        }
        for (int looked = 0; !(near.isEmpty() && far.isEmpty()); looked++) {
            if (seen.size() > most || (looked % 64 == 0 && System.nanoTime() > deadline)) {
                ended = seen.size() > most ? "objects" : "time";
                return;
            }
            expand(near.isEmpty() ? far.poll() : near.poll());
        }
    }

    private void expand(Object object) {
        if (object instanceof Object[]) {
            for (Object each : (Object[]) object) {
                meet(each);
            }
            return;
        }
        for (Field field : references(object.getClass())) {
            meet(value(field, object));
        }
    }

    private void meet(Object object) {
        if (object == null) {
            return;
        }
        int kind = kind(object.getClass());
        if (kind == 0 || seen.put(object, Boolean.TRUE) != null) {
            return;
        }
        (kind == 1 ? near : far).add(object);
        if (named(object.getClass(), "pulsar.client.impl.ConsumerBase") != null) {
            consumers.add(object);
        }
    }

    // 0: not looked into; 1: of Netty or the client, looked into first; 2: of the JDK.
    private int kind(Class<?> type) {
        Integer known = kinds.get(type);
        if (known == null) {
            known = kindOf(type);
            kinds.put(type, known);
        }
        return known;
    }

    private static int kindOf(Class<?> type) {
        if (type.isArray()) {
            return type.getComponentType().isPrimitive() ? 0 : 2;
        }
        if (Reference.class.isAssignableFrom(type) || ClassLoader.class.isAssignableFrom(type)) {
            return 0;
        }
        if (Thread.class.isAssignableFrom(type)) {
            return 1;
        }
        String name = type.getName();
        return ours(name) ? 1 : theirs(name) ? 2 : 0;
    }

    private static boolean ours(String name) {
        return contains(name, NEAR) && !contains(name, NEVER);
    }

    private static boolean theirs(String name) {
        for (String each : FAR) {
            if (name.startsWith(each)) {
                return !contains(name, NEVER);
            }
        }
        return false;
    }

    private static boolean contains(String name, String[] parts) {
        for (String part : parts) {
            if (name.contains(part)) {
                return true;
            }
        }
        return false;
    }

    // The class of this name's end among a class and those it extends; null where there is none.
    private static Class<?> named(Class<?> type, String end) {
        for (Class<?> each = type; each != null; each = each.getSuperclass()) {
            if (each.getName().endsWith(end)) {
                return each;
            }
        }
        return null;
    }

    // Asking a class for its fields loads their types: so never of a class of the application.
    private Field[] references(Class<?> type) {
        Field[] known = references.get(type);
        if (known != null) {
            return known;
        }
        List<Field> fields = new ArrayList<>();
        for (Class<?> each = type; each != null; each = each.getSuperclass()) {
            if (!ours(each.getName()) && !theirs(each.getName())) {
                continue;
            }
            for (Field field : declared(each)) {
                Class<?> of = field.getType();
                if (!Modifier.isStatic(field.getModifiers()) && !of.isPrimitive()
                        && of != String.class && of != Class.class && open(field, each)) {
                    fields.add(field);
                }
            }
        }
        known = fields.toArray(NONE);
        references.put(type, known);
        return known;
    }

    private static Field[] declared(Class<?> type) {
        try {
            return type.getDeclaredFields();
        } catch (LinkageError absent) { // the type of one is not on the class path
            return NONE;
        }
    }

    private boolean open(AccessibleObject member, Class<?> of) {
        try {
            member.setAccessible(true);
            return true;
        } catch (RuntimeException closed) {
            return openPackage(of) && accessible(member);
        }
    }

    private static boolean accessible(AccessibleObject member) {
        try {
            member.setAccessible(true);
            return true;
        } catch (RuntimeException closed) {
            return false;
        }
    }

    // Opens a package of a module to the module of this class, which nobody else is in.
    private boolean openPackage(Class<?> of) {
        String name = of.getName();
        String in = name.substring(0, Math.max(0, name.lastIndexOf('.')));
        Boolean known = opened.get(in);
        if (known != null) {
            return known;
        }
        boolean done = true;
        try {
            Class<?> module = Class.forName("java.lang.Module");
            Method moduleOf = Class.class.getMethod("getModule");
            Map<String, Set<?>> opens = new HashMap<>();
            opens.put(in, Collections.singleton(moduleOf.invoke(Walker.class)));
            Instrumentation.class
                    .getMethod("redefineModule", module, Set.class, Map.class, Map.class, Set.class,
                            Map.class)
                    .invoke(instrumentation, moduleOf.invoke(of), Collections.emptySet(),
                            Collections.emptyMap(), opens, Collections.emptySet(),
                            Collections.emptyMap());
        } catch (ReflectiveOperationException refused) {
            done = false;
        }
        opened.put(in, done);
        return done;
    }

    private static Object value(Field field, Object object) {
        try {
            return field.get(object);
        } catch (IllegalAccessException closed) {
            return null;
        }
    }

    // The value of a field by its name; null where it is null, or where there is none of this name,
    // which is noted. A path leads from one object to the next: "conf.receiverQueueSize".
    private Object get(Object object, String path) {
        Object at = object;
        for (String name : path.split("\\.")) {
            Field field = at == null ? null : field(at.getClass(), name);
            if (field == null) {
                if (at != null) {
                    missing.add(path);
                }
                return null;
            }
            at = value(field, at);
        }
        return at;
    }

    private Field field(Class<?> type, String name) {
        Map<String, Field> known = byName.get(type);
        if (known == null) {
            known = new HashMap<>();
            for (Class<?> each = type; each != null; each = each.getSuperclass()) {
                for (Field field : declared(each)) {
                    if (!known.containsKey(field.getName())) {
                        known.put(field.getName(), field);
                    }
                }
            }
            byName.put(type, known);
        }
        Field field = known.get(name);
        return field != null && open(field, field.getDeclaringClass()) ? field : null;
    }

    private void tell(long began) {
        out.append("{\"format\":1,\"java\":");
        text(System.getProperty("java.version"));
        out.append(",\"read_at_ms\":").append(System.currentTimeMillis());
        out.append(",\"consumers\":[");
        String comma = "";
        for (int at = 0; at < consumers.size(); at++) {
            if (System.nanoTime() > deadline + GRACE_NANOS) {
                ended = "time";
                break;
            }
            out.append(comma);
            consumer(consumers.get(at));
            comma = ",";
        }
        out.append("],\"found\":").append(consumers.size());
        out.append(",\"objects\":").append(seen.size());
        out.append(",\"ended\":\"").append(ended);
        out.append("\",\"milliseconds\":").append((System.nanoTime() - began) / 1000000L).append('}');
    }

    private void consumer(Object consumer) {
        missing = new ArrayList<>();
        out.append("{\"id\":").append(System.identityHashCode(consumer)).append(",\"class\":");
        text(consumer.getClass().getName());
        // First what moves, at once: nothing is as of another moment than the rest.
        boolean parent = named(consumer.getClass(), "MultiTopicsConsumerImpl") != null;
        if (!parent) {
            plain(consumer, "availablePermits");
        }
        for (String name : new String[] {"currentReceiverQueueSize", "paused",
                "messageListenerQueueSize", "incomingMessagesSize", "maxReceiverQueueSize"}) {
            plain(consumer, name);
        }
        size("incomingMessages", get(consumer, "incomingMessages"));
        size("pendingReceives", get(consumer, "pendingReceives"));
        size("pendingBatchReceives", get(consumer, "pendingBatchReceives"));
        plain(consumer, "state");
        plain(consumer, "topic");
        plain(consumer, "subscription");
        plain(consumer, "consumerName");
        for (String name : new String[] {"receiverQueueSize", "subscriptionType",
                "autoScaledReceiverQueueSizeEnabled", "ackTimeoutMillis",
                "acknowledgementsGroupTimeMicros", "deadLetterPolicy.maxRedeliverCount",
                "deadLetterPolicy.deadLetterTopic", "deadLetterPolicy.retryLetterTopic"}) {
            plain(consumer, "conf." + name);
        }
        is("listener", get(consumer, "listener") != null);
        executor(get(consumer, "externalPinnedExecutor"));
        size("unAckedMessageTracker",
                optional(get(consumer, "unAckedMessageTracker"), "messageIdPartitionMap"));
        if (parent) {
            children(get(consumer, "consumers"));
            size("pausedConsumers", get(consumer, "pausedConsumers"));
        } else {
            alone(consumer);
        }
        out.append(",\"missing\":[");
        for (int at = 0; at < missing.size(); at++) {
            out.append(at == 0 ? "" : ",");
            text(missing.get(at));
        }
        out.append("]}");
    }

    // What a consumer of one topic or partition has, and its parent has not.
    private void alone(Object consumer) {
        plain(consumer, "consumerId");
        plain(consumer, "partitionIndex");
        plain(consumer, "hasParentConsumer");
        plain(optionalOf(consumer, "receiverQueueRefillThreshold"), "receiverQueueRefillThreshold");
        plain(optionalOf(consumer, "waitingOnReceiveForZeroQueueSize"),
                "waitingOnReceiveForZeroQueueSize");
        Object tracker = get(consumer, "acknowledgmentsGroupingTracker");
        size("pendingIndividualAcks", optional(tracker, "pendingIndividualAcks"));
        size("pendingIndividualBatchIndexAcks",
                optional(tracker, "pendingIndividualBatchIndexAcks"));
        Object cumulative = optional(tracker, "lastCumulativeAck");
        Object flush = optional(cumulative, "flushRequired");
        if (flush != null) {
            is("cumulativeAckPending", (Boolean) flush);
        }
        Object nacks = optional(get(consumer, "negativeAcksTracker"), "nackedMessages");
        if (nacks instanceof Map && nacks.getClass().getName().startsWith("java.util.")) {
            size("nackedMessages", nacks);
        }
        Object connection = get(consumer, "connectionHandler.clientCnx");
        is("connected", connection != null);
        Object channel = optional(optional(optional(connection, "ctx"), "pipeline"), "channel");
        address("localAddress", optional(channel, "localAddress"));
        address("remoteAddress", optional(channel, "remoteAddress"));
    }

    private void children(Object map) {
        if (!(map instanceof Map) || !map.getClass().getName().startsWith("java.util.")) {
            return;
        }
        out.append(",\"children\":[");
        String comma = "";
        for (Object child : ((Map<?, ?>) map).values()) {
            out.append(comma).append(System.identityHashCode(child));
            if (seen.put(child, Boolean.TRUE) == null) {
                consumers.add(child); // the walk ended before it came there
            }
            comma = ",";
        }
        out.append(']');
    }

    private Object optional(Object object, String name) {
        Field field = object == null ? null : field(object.getClass(), name);
        return field == null ? null : value(field, object);
    }

    private Object optionalOf(Object object, String name) {
        return field(object.getClass(), name) == null ? null : object;
    }

    // The queue and the threads of an executor, which the JDK may have wrapped.
    private void executor(Object executor) {
        Object at = executor;
        while (at != null && !(at instanceof ThreadPoolExecutor)) {
            at = theirs(at.getClass().getName()) ? optional(at, "e") : null;
        }
        size("listenerExecutor", optional(at, "workQueue"));
        Object workers = optional(at, "workers");
        Object[] each;
        try {
            each = workers instanceof Collection ? ((Collection<?>) workers).toArray() : new Object[0];
        } catch (RuntimeException moving) { // one began or ended just now
            return;
        }
        out.append(",\"listenerThreads\":[");
        String comma = "";
        for (Object worker : each) {
            Object thread = optional(worker, "thread");
            if (thread instanceof Thread) {
                out.append(comma).append(((Thread) thread).getId());
                comma = ",";
            }
        }
        out.append(']');
    }

    private void size(String name, Object of) {
        if (of == null) {
            return;
        }
        Object size;
        if (!theirs(of.getClass().getName())) {
            size = optional(of, "size");
        } else if (of instanceof Collection) {
            size = ((Collection<?>) of).size();
        } else {
            size = of instanceof Map ? ((Map<?, ?>) of).size() : null;
        }
        if (size instanceof Integer) {
            out.append(",\"").append(name).append("\":").append(size);
        }
    }

    private void plain(Object object, String path) {
        Object value = object == null ? null : get(object, path);
        if (value == null) {
            return;
        }
        out.append(",\"").append(path).append("\":");
        if (value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else {
            text(value instanceof Enum ? ((Enum<?>) value).name() : value);
        }
    }

    private void is(String name, boolean value) {
        out.append(",\"").append(name).append("\":").append(value);
    }

    private void address(String name, Object address) {
        if (address instanceof InetSocketAddress && ((InetSocketAddress) address).getAddress() != null) {
            InetSocketAddress at = (InetSocketAddress) address;
            out.append(",\"").append(name).append("\":");
            text(at.getAddress().getHostAddress() + " " + at.getPort());
        }
    }

    private void text(Object value) {
        if (!(value instanceof String)) {
            out.append("null");
            return;
        }
        String text = (String) value;
        out.append('"');
        for (int at = 0; at < text.length(); at++) {
            char c = text.charAt(at);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ' || c > '~') {
                out.append("\\u").append(Integer.toHexString(0x10000 | c).substring(1));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
