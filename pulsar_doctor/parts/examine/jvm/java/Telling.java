// Tells of consumers as JSON: what they have under the names that the client's fields have.

package pulsardoctor;

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadPoolExecutor;

final class Telling {
    private static final long GRACE_MILLISECONDS = 200; // for telling what was found in time

    private final Fields fields;
    private final List<Object> consumers;
    private final Map<Object, Boolean> seen;
    private final StringBuilder out = new StringBuilder(8192);
    private List<String> missing = new ArrayList<>();

    // seen: all objects that were met. Children of consumers that were not are added to both.
    Telling(Fields fields, List<Object> consumers, Map<Object, Boolean> seen) {
        this.fields = fields;
        this.consumers = consumers;
        this.seen = seen;
    }

    // threads: what Waiting has told.
    String all(String walked, Allowance allowance, String threads, Pools pools) {
        allowance.extend(GRACE_MILLISECONDS);
        String ended = walked;
        out.append("{\"format\":1,\"java\":");
        text(System.getProperty("java.version"));
        out.append(",\"read_at_ms\":").append(System.currentTimeMillis());
        out.append(",\"consumers\":[");
        String comma = "";
        for (int at = 0; at < consumers.size(); at++) {
            if (allowance.isUsed()) {
                ended = "time";
                break;
            }
            out.append(comma);
            consumer(consumers.get(at));
            comma = ",";
        }
        out.append("],\"threads\":").append(threads).append(",\"pools\":").append(pools.told());
        out.append(",\"virtual\":").append(pools.virtual());
        out.append(",\"found\":").append(consumers.size());
        out.append(",\"objects\":").append(seen.size());
        out.append(",\"ended\":\"").append(ended);
        out.append("\",\"milliseconds\":").append(allowance.milliseconds()).append('}');
        return out.toString();
    }

    private void consumer(Object consumer) {
        missing = new ArrayList<>();
        out.append("{\"id\":").append(System.identityHashCode(consumer)).append(",\"class\":");
        text(consumer.getClass().getName());
        // First what moves, at once: nothing is as of another moment than the rest.
        boolean parent = Fields.named(consumer.getClass(), "MultiTopicsConsumerImpl") != null;
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

    // The value of a field by its name; null where it is null, or where there is none of this name,
    // which is noted. A path leads from one object to the next: "conf.receiverQueueSize".
    private Object get(Object object, String path) {
        Object at = object;
        for (String name : path.split("\\.")) {
            if (at != null && !fields.has(at, name)) {
                missing.add(path);
            }
            at = fields.optional(at, name);
        }
        return at;
    }

    private Object optional(Object object, String name) {
        return fields.optional(object, name);
    }

    private Object optionalOf(Object object, String name) {
        return fields.has(object, name) ? object : null;
    }

    // The queue and the threads of an executor, which the JDK may have wrapped.
    private void executor(Object executor) {
        Object at = executor;
        while (at != null && !(at instanceof ThreadPoolExecutor)) {
            at = Walker.theirs(at.getClass().getName()) ? optional(at, "e") : null;
        }
        size("listenerExecutor", optional(at, "workQueue"));
        threads(out, optional(at, "workers"), fields);
    }

    // The ids of the threads of a pool: of its workers, which may be the threads themselves.
    static void threads(StringBuilder out, Object workers, Fields fields) {
        Object[] each;
        try {
            each = workers instanceof Collection ? ((Collection<?>) workers).toArray() : new Object[0];
        } catch (RuntimeException moving) { // one began or ended just now
            return;
        }
        out.append(",\"listenerThreads\":[");
        String comma = "";
        for (Object worker : each) {
            Object thread = worker instanceof Thread ? worker : fields.optional(worker, "thread");
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
        if (!Walker.theirs(of.getClass().getName())) {
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
        text(out, value);
    }

    static void text(StringBuilder out, Object value) {
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
