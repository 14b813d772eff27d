// How long a look may go on: by what it costs, its thread's own processor time, since a busy machine
// may not let it run; and not for long even so, because somebody waits for the answer.

package pulsardoctor;

import java.nio.file.Files;
import java.nio.file.Paths;

final class Allowance {
    private static final long MOST_NANOS = 4000000000L;

    private final long began = System.nanoTime();
    private final long usedBefore = used();
    private long nanos;
    private long askAt;

    Allowance(long milliseconds) {
        this.nanos = milliseconds * 1000000L;
        this.askAt = began + nanos;
    }

    void extend(long milliseconds) {
        nanos += milliseconds * 1000000L;
    }

    boolean isUsed() {
        long now = System.nanoTime();
        if (now < askAt) {
            return false;
        }
        long left = usedBefore < 0 ? began + nanos - now : usedBefore + nanos - used();
        askAt = now + left;
        return left <= 0 || now - began > MOST_NANOS;
    }

    long milliseconds() {
        return (System.nanoTime() - began) / 1000000L;
    }

    // Nanoseconds that this thread has run, by the kernel; -1 where it does not tell.
    private static long used() {
        try {
            byte[] told = Files.readAllBytes(Paths.get("/proc/thread-self/schedstat"));
            return Long.parseLong(new String(told, "US-ASCII").split(" ")[0]);
        } catch (Exception none) {
            return -1;
        }
    }
}
