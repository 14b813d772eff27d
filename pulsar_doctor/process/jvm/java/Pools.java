// Tells of the thread pools in which tasks wait: how many, and which messages of the client they hold.
// Looked into are tasks of the JDK, and lambdas, whose classes have loaded the types of all that they
// hold; never a class of the application.

package pulsardoctor;

import java.lang.invoke.MethodHandle;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.ThreadPoolExecutor;

final class Pools {
    private static final int POOLS = 100;
    private static final int TASKS = 200; // of one pool
    private static final int WRAPPED = 5; // tasks within tasks
    private static final String[] INNER = {"callable", "task", "fn", "runnable"};

    private final List<Object> found = new ArrayList<>();

    void meet(Object object) {
        if (object instanceof ThreadPoolExecutor && found.size() < POOLS) {
            found.add(object);
        }
    }

    String told(Fields fields) {
        StringBuilder out = new StringBuilder("[");
        for (Object pool : found) {
            Object queue = fields.inherited(pool, "ThreadPoolExecutor", "workQueue");
            if (queue instanceof Collection && Walker.theirs(queue.getClass().getName())) {
                one(out, pool, (Collection<?>) queue, fields);
            }
        }
        return out.append(']').toString();
    }

    private static void one(StringBuilder out, Object pool, Collection<?> queue, Fields fields) {
        int looked = 0;
        int holding = 0;
        String kind = null;
        Object oldest = null;
        for (Object each : queue) { // all of them let others go on meanwhile
            Object task = unwrapped(each, fields);
            kind = kind == null ? task.getClass().getName() : kind;
            Object message = message(task, fields);
            oldest = looked == 0 ? message : oldest;
            holding += message == null ? 0 : 1;
            if (++looked == TASKS) {
                break;
            }
        }
        boolean unknown = holding == 0 && (kind == null || kind.contains("$$Lambda")
                || queue.getClass().getName().contains("DelayedWorkQueue"));
        if (unknown || Walker.ours(kind) || Walker.theirs(kind)) {
            return; // nothing waits, or nothing of the application that may hold messages
        }
        out.append(out.length() == 1 ? "{" : ",{").append("\"waiting\":").append(queue.size());
        out.append(",\"looked\":").append(looked).append(",\"holding\":").append(holding);
        out.append(",\"task\":");
        Telling.text(out, kind);
        Telling.threads(out, fields.inherited(pool, "ThreadPoolExecutor", "workers"), fields);
        if (oldest != null) {
            message(out, oldest, queue, fields);
        }
        out.append('}');
    }

    private static void message(StringBuilder out, Object message, Object queue, Fields fields) {
        Object id = fields.optional(message, "messageId");
        out.append(",\"ledger\":").append(fields.optional(id, "ledgerId"));
        out.append(",\"entry\":").append(fields.optional(id, "entryId"));
        Object published = fields.optional(fields.optional(message, "msgMetadata"), "publishTime");
        out.append(",\"published_ms\":").append(published);
        out.append(",\"topic\":");
        Telling.text(out, fields.optional(message, "topic"));
        String kind = queue.getClass().getName();
        out.append(",\"in_order\":");
        out.append(kind.contains(".LinkedBlocking") || kind.contains(".ArrayBlocking"));
    }

    private static Object unwrapped(Object task, Fields fields) {
        Object at = task;
        for (int each = 0; each < WRAPPED && Walker.theirs(at.getClass().getName()); each++) {
            Object inner = null;
            for (String name : INNER) {
                inner = inner == null ? fields.optional(at, name) : inner;
            }
            if (inner == null) {
                break;
            }
            at = inner;
        }
        return at;
    }

    private static Object message(Object task, Fields fields) {
        if (!task.getClass().getName().contains("$$Lambda")) {
            return null;
        }
        for (MethodHandle getter : fields.captured(task.getClass())) {
            Object held = Fields.value(getter, task);
            if (held != null && Fields.named(held.getClass(), "client.impl.TopicMessageImpl") != null) {
                held = fields.optional(held, "msg");
            }
            if (held != null && Fields.named(held.getClass(), "client.impl.MessageImpl") != null) {
                return held;
            }
        }
        return null;
    }
}
