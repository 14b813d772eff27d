// A Java application without a client, whose thread "waiter" waits for others in the way that its
// argument names. It prints "ready" once all of them are where they stay.

package com.acme;

import com.google.common.util.concurrent.RateLimiter;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

public final class Waits {
    private static final Object LEDGER = new Object();
    private static final ReentrantLock BOOKS = new ReentrantLock();
    private static final ReentrantReadWriteLock RATES = new ReentrantReadWriteLock();

    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(2);
        switch (arguments[0]) {
            case "monitor":
                start("writer", Waits::write);
                start("waiter", Waits::charge);
                break;
            case "chain":
                start("clerk", Waits::keepBooks);
                start("writer", Waits::writeIntoBooks);
                start("waiter", Waits::charge);
                break;
            case "notified": // it has left the monitor that it waits on
                start("waiter", Waits::awaitNotice);
                start("writer", Waits::write);
                break;
            case "readers":
                start("reader", Waits::read);
                start("waiter", () -> RATES.writeLock().lock());
                break;
            case "deadlock":
                start("waiter", () -> lockBooksThen(Waits::charge));
                start("left", Waits::writeIntoBooksSoon);
                break;
            case "future":
                start("waiter", () -> new CompletableFuture<String>().join());
                break;
            case "task":
                Future<?> running = pool.submit(Waits::sleep);
                start("waiter", () -> get(running));
                break;
            case "queued": // both threads of a pool wait for a task that is in its queue
                for (int each = 0; each < 2; each++) {
                    pool.submit(() -> get(pool.submit(Waits::sleep)));
                }
                break;
            case "latch":
                start("waiter", Waits::awaitLatch);
                break;
            case "limiter":
                RateLimiter limiter = RateLimiter.create(0.001);
                limiter.acquire();
                start("waiter", () -> acquire(limiter));
                break;
            case "virtual": // three by themselves, two of an executor
                for (int each = 0; each < 3; each++) {
                    Thread.class.getMethod("startVirtualThread", Runnable.class)
                            .invoke(null, (Runnable) Waits::sleep);
                }
                ExecutorService virtual = (ExecutorService) Executors.class
                        .getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
                virtual.submit(Waits::sleep);
                virtual.submit(Waits::sleep);
                break;
            case "rhythm": // it takes the lock again and again, and each time waits for a while
                start("writer", () -> again(2000));
                start("waiter", () -> again(0));
                break;
            default:
                throw new IllegalArgumentException(arguments[0]);
        }
        System.out.println("ready");
        Thread.sleep(3600000);
    }

    private static void start(String name, Runnable work) throws InterruptedException {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
        Thread.sleep(300);
    }

    private static void charge() {
        synchronized (LEDGER) {
            sleep();
        }
    }

    private static void write() {
        synchronized (LEDGER) {
            sleep();
        }
    }

    private static void keepBooks() {
        BOOKS.lock();
        sleep();
    }

    private static void writeIntoBooks() {
        synchronized (LEDGER) {
            BOOKS.lock();
        }
    }

    private static void writeIntoBooksSoon() {
        synchronized (LEDGER) {
            BOOKS.lock();
        }
    }

    private static void lockBooksThen(Runnable work) {
        BOOKS.lock();
        rest(600);
        work.run();
    }

    private static void again(long milliseconds) {
        while (true) {
            synchronized (LEDGER) {
                rest(milliseconds);
            }
        }
    }

    private static void awaitNotice() {
        synchronized (LEDGER) {
            try {
                LEDGER.wait();
            } catch (InterruptedException end) {
                return;
            }
        }
    }

    private static void awaitLatch() {
        try {
            new CountDownLatch(1).await();
        } catch (InterruptedException end) {
            return;
        }
    }

    private static void read() {
        RATES.readLock().lock();
        sleep();
    }

    private static void acquire(RateLimiter limiter) {
        limiter.acquire();
    }

    private static void get(Future<?> task) {
        try {
            task.get();
        } catch (Exception failed) {
            throw new IllegalStateException(failed);
        }
    }

    private static void sleep() {
        rest(3600000);
    }

    private static void rest(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException end) {
            return;
        }
    }
}
