// Walks from the threads through what is the JDK's, Netty's and the Pulsar client's, for consumers.

package pulsardoctor;

import java.lang.instrument.Instrumentation;
import java.lang.invoke.MethodHandle;
import java.lang.ref.Reference;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadPoolExecutor;

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

    // What an event loop's thread runs: it leads to the connections and their consumers.
    private static final String LOOP = "netty.util.internal.ThreadExecutorMap$";

    private static final int THREADS = 20000;

    private final Fields fields;
    private final Allowance allowance;
    private final int most;
    private final Map<Object, Boolean> seen = new IdentityHashMap<>();
    private final Map<Class<?>, Integer> kinds = new HashMap<>();
    private final ArrayDeque<Object> near = new ArrayDeque<>();
    private final ArrayDeque<Object> far = new ArrayDeque<>();
    private final List<Object> consumers = new ArrayList<>();
    private String ended = "all";
    private String waiting = "[]";
    private final Pools pools;

    private Walker(Instrumentation instrumentation, long milliseconds, int most) {
        this.fields = new Fields(instrumentation);
        this.pools = new Pools(fields);
        this.allowance = new Allowance(milliseconds);
        this.most = most;
    }

    // What there is of consumers, as JSON. Asked for by Agent, by its name.
    static String look(String[] told, Instrumentation instrumentation) {
        Walker walker =
                new Walker(instrumentation, Long.parseLong(told[0]), Integer.parseInt(told[1]));
        walker.walk();
        return new Telling(walker.fields, walker.consumers, walker.seen)
                .all(walker.ended, walker.allowance, walker.waiting, walker.pools);
    }

    private void walk() {
        ThreadGroup group = Thread.currentThread().getThreadGroup();
        while (group.getParent() != null) {
            group = group.getParent();
        }
        Thread[] threads = new Thread[2 * group.activeCount() + 64];
        int count = group.enumerate(threads);
        waiting = Waiting.told(threads, count, fields, THREADS);
        for (int at = 0; at < count; at++) {
            meet(threads[at]);
        }
        for (int looked = 0; !(near.isEmpty() && far.isEmpty()); looked++) {
            if (seen.size() > most || (looked % 64 == 0 && allowance.isUsed())) {
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
        for (MethodHandle reference : fields.references(object.getClass())) {
            meet(Fields.value(reference, object));
        }
    }

    private void meet(Object object) {
        if (object == null) {
            return;
        }
        int kind = kind(object.getClass());
        if (kind == 0 && object instanceof ThreadPoolExecutor && seen.put(object, true) == null) {
            pools.meet(object);
        }
        if (kind == 0 || seen.put(object, Boolean.TRUE) != null) {
            return;
        }
        (kind == 1 ? near : far).add(object);
        pools.meet(object);
        if (Fields.named(object.getClass(), "pulsar.client.impl.ConsumerBase") != null) {
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

    static boolean ours(String name) {
        return name.contains(LOOP) || (contains(name, NEAR) && !contains(name, NEVER));
    }

    static boolean theirs(String name) {
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
}
