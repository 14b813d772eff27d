// Tells of each thread that waits: how often it has waited, on what, and who holds that. The counts
// are the JVM's own; they tell whether a thread is in one wait from one look to the next.

package pulsardoctor;

import java.lang.management.LockInfo;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.util.HashMap;
import java.util.Map;

final class Waiting {
    private static final String[] RUN_OR_HOLD = {
        "java.util.concurrent.FutureTask", "runner",
        "java.util.concurrent.locks.ReentrantReadWriteLock$Sync", "firstReader"
    };

    private Waiting() {}

    // A list of objects; an empty one where this Java has no java.lang.management.
    static String told(Thread[] threads, int count, Fields fields, int most) {
        StringBuilder out = new StringBuilder("[");
        try {
            long[] ids = new long[Math.min(count, most)];
            for (int at = 0; at < ids.length; at++) {
                ids[at] = threads[at].getId();
            }
            ThreadInfo[] infos = ManagementFactory.getThreadMXBean().getThreadInfo(ids);
            Map<Integer, Thread> known = new HashMap<>(); // by their identity, which a join waits on
            for (int at = 0; at < ids.length; at++) {
                known.put(System.identityHashCode(threads[at]), threads[at]);
            }
            for (int at = 0; at < ids.length; at++) {
                if (infos[at] != null && waits(infos[at].getThreadState())) {
                    one(out, infos[at], threads[at], fields, known);
                }
            }
        } catch (LinkageError absent) {
            return "[]";
        }
        return out.append(']').toString();
    }

    private static boolean waits(Thread.State state) {
        return state == Thread.State.BLOCKED || state == Thread.State.WAITING
                || state == Thread.State.TIMED_WAITING;
    }

    private static void one(StringBuilder out, ThreadInfo info, Thread thread, Fields fields,
            Map<Integer, Thread> known) {
        out.append(out.length() == 1 ? "" : ",").append("{\"id\":").append(info.getThreadId());
        out.append(",\"blocked\":").append(info.getBlockedCount());
        out.append(",\"waited\":").append(info.getWaitedCount());
        LockInfo lock = info.getLockInfo();
        if (lock != null) {
            out.append(",\"on\":");
            Telling.text(out, lock.getClassName());
            Thread joined = known.get(lock.getIdentityHashCode());
            boolean joins =
                    joined != null && joined.getClass().getName().equals(lock.getClassName());
            long owner = joins ? joined.getId() : info.getLockOwnerId();
            owner(out, owner, fields.optional(thread, "parkBlocker"), fields);
        }
        out.append('}');
    }

    private static void owner(StringBuilder out, long owner, Object blocker, Fields fields) {
        long id = owner;
        for (int at = 0; id <= 0 && at < RUN_OR_HOLD.length; at += 2) {
            if (blocker != null && Fields.named(blocker.getClass(), RUN_OR_HOLD[at]) != null) {
                Object other = fields.inherited(blocker, RUN_OR_HOLD[at], RUN_OR_HOLD[at + 1]);
                id = other instanceof Thread ? ((Thread) other).getId() : id;
                if (at == 0) {
                    out.append(",\"begun\":").append(id > 0);
                }
            }
        }
        if (id > 0) {
            out.append(",\"owner\":").append(id);
        }
    }
}
