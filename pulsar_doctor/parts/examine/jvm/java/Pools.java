// Tells of the thread pools in which tasks wait: how many, and which messages of the client they hold.
// Looked into are tasks of the JDK, and lambdas, whose classes have loaded the types of all that they
// hold; never a class of the application. Of virtual threads it tells how many there are.

package pulsardoctor;

import java.lang.invoke.MethodHandle;
import java.lang.ref.Reference;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.ForkJoinWorkerThread;
import java.util.concurrent.ThreadPoolExecutor;

final class Pools {
    private static final int POOLS = 100;
    private static final int TASKS = 200; // of one pool
    private static final int WRAPPED = 5; // tasks within tasks
    private static final String[] INNER = {"callable", "task", "fn", "runnable"};

    private final Fields fields;
    private final List<Object> found = new ArrayList<>();
    private final List<ForkJoinWorkerThread> forked = new ArrayList<>();

    Pools(Fields fields) {
        this.fields = fields;
    }

    void meet(Object object) {
        if (object instanceof ForkJoinWorkerThread) {
            forked.add((ForkJoinWorkerThread) object);
        } else if ((object instanceof ThreadPoolExecutor || object instanceof ForkJoinPool)
                && found.size() < POOLS) {
            found.add(object);
        }
    }

    String told() {
        StringBuilder out = new StringBuilder("[");
        for (Object pool : found) {
            Object queue = fields.inherited(pool, "ThreadPoolExecutor", "workQueue");
            if (pool instanceof ForkJoinPool && pool.getClass() == ForkJoinPool.class) {
                ForkJoinPool known = (ForkJoinPool) pool;
                long waiting = known.getQueuedTaskCount() + known.getQueuedSubmissionCount();
                one(out, queued(pool), waiting, workers(pool));
            } else if (queue instanceof Collection && Walker.theirs(queue.getClass().getName())) {
                Collection<?> tasks = (Collection<?>) queue;
                Object workers = fields.inherited(pool, "ThreadPoolExecutor", "workers");
                one(out, tasks, tasks.size(), workers);
            }
        }
        return out.append(']').toString();
    }

    // How many virtual threads there are, as far as this Java keeps account of them.
    int virtual() {
        int count = 0;
        String of = "jdk.internal.vm.ThreadContainers";
        Object root = fields.constant(of + "$RootContainer$TrackingRootContainer", "VTHREADS");
        Object executors = fields.constant(of, "CONTAINER_REGISTRY");
        count += root instanceof Collection ? ((Collection<?>) root).size() : 0;
        if (executors instanceof Collection) {
            for (Object each : (Collection<?>) executors) {
                Object threads = fields.optional(((Reference<?>) each).get(), "threads");
                if (threads instanceof Collection) {
                    for (Object thread : (Collection<?>) threads) {
                        count += thread.getClass().getName().contains("VirtualThread") ? 1 : 0;
                    }
                }
            }
        }
        return count;
    }

    // The tasks in the queues of a ForkJoinPool, as many as are looked at.
    private List<Object> queued(Object pool) {
        List<Object> tasks = new ArrayList<>();
        Object queues = fields.optional(pool, fields.has(pool, "queues") ? "queues" : "workQueues");
        for (Object queue : queues instanceof Object[] ? (Object[]) queues : new Object[0]) {
            Object array = fields.optional(queue, "array");
            for (Object task : array instanceof Object[] ? (Object[]) array : new Object[0]) {
                if (task != null && tasks.size() < TASKS) {
                    tasks.add(task);
                }
            }
        }
        return tasks;
    }

    private List<Object> workers(Object pool) {
        List<Object> threads = new ArrayList<>();
        for (ForkJoinWorkerThread each : forked) {
            if (fields.inherited(each, "ForkJoinWorkerThread", "pool") == pool) {
                threads.add(each);
            }
        }
        return threads;
    }

    private void one(StringBuilder out, Collection<?> tasks, long waiting, Object workers) {
        int looked = 0;
        int holding = 0;
        String kind = null;
        Object oldest = null;
        for (Object each : tasks) { // all of them let others go on meanwhile
            Object task = unwrapped(each);
            kind = kind == null ? task.getClass().getName() : kind;
            Object message = message(task);
            oldest = looked == 0 ? message : oldest;
            holding += message == null ? 0 : 1;
            if (++looked == TASKS) {
                break;
            }
        }
        boolean timed = tasks.getClass().getName().contains("DelayedWorkQueue");
        if (kind == null || (holding == 0 && timed) || nobodys(kind)) {
            return; // nothing waits, or nothing of the application that may hold messages
        }
        out.append(out.length() == 1 ? "{" : ",{").append("\"waiting\":").append(waiting);
        out.append(",\"looked\":").append(looked).append(",\"holding\":").append(holding);
        out.append(",\"task\":");
        Telling.text(out, kind);
        Telling.threads(out, workers, fields);
        if (oldest != null) {
            message(out, oldest, tasks);
        }
        out.append('}');
    }

    // Whether a task of this class is the client's own, Netty's or the JDK's.
    private static boolean nobodys(String kind) {
        return Walker.ours(kind) || kind.startsWith("java.") || kind.startsWith("jdk.");
    }

    private void message(StringBuilder out, Object message, Object queue) {
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

    private Object unwrapped(Object task) {
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

    private Object message(Object task) {
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
