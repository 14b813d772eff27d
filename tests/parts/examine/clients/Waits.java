// Waits of one thread for others, each by its name: a program without a client, whose thread "waiter"
// waits in the way that its argument names, and for Client, whose listeners do. The program prints
// "ready" once all of its threads are where they stay.

package com.acme;

import com.google.common.util.concurrent.RateLimiter;
import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Collections;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Exchanger;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.Future;
import java.util.concurrent.Phaser;
import java.util.concurrent.Semaphore;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.concurrent.locks.StampedLock;

public final class Waits {
    private static final Object LEDGER = new Object();
    private static final ReentrantLock BOOKS = new ReentrantLock();
    private static final ReentrantReadWriteLock RATES = new ReentrantReadWriteLock();
    private static final StampedLock STAMPED = new StampedLock();

    // What may fail, as most waits may.
    interface Step {
        void run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        Runnable wait = of(arguments[0]);
        if (wait != null) {
            start("waiter", wait);
        }
        if (arguments[0].equals("deadlock")) {
            Thread.sleep(600);
        }
        System.out.println("ready");
        Thread.sleep(3600000);
    }

    // The wait of this name, once the other threads of it are where they stay; null where those are all.
    static Runnable of(String how) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(2);
        switch (how) {
            case "monitor":
                start("writer", Waits::write);
                return Waits::charge;
            case "chain":
                start("clerk", Waits::keepBooks);
                start("writer", Waits::writeIntoBooks);
                return Waits::charge;
            case "notified": // it has left the monitor that it waits on
                return () -> {
                    startSoon("writer", Waits::write);
                    awaitNotice();
                };
            case "readers":
                start("reader", Waits::read);
                return () -> RATES.writeLock().lock();
            case "upgrade": // it holds the read lock itself
                return () -> {
                    RATES.readLock().lock();
                    RATES.writeLock().lock();
                };
            case "deadlock":
                return () -> {
                    startSoon("left", Waits::writeIntoBooks);
                    lockBooksThen(Waits::charge);
                };
            case "future":
                return () -> new CompletableFuture<String>().join();
            case "task":
                Future<?> running = pool.submit(Waits::sleep);
                Thread.sleep(300);
                return () -> get(running);
            case "all": // of them one runs
                Callable<Object> sleeps = Executors.callable(Waits::sleep);
                return unchecked(() -> pool.invokeAll(Collections.nCopies(2, sleeps)));
            case "queued": // both threads of a pool wait for a task that is in its queue
                for (int each = 0; each < 2; each++) {
                    pool.submit(() -> get(pool.submit(Waits::sleep)));
                }
                Thread.sleep(300);
                return null;
            case "forked":
                ForkJoinPool forks = new ForkJoinPool(1);
                return () -> forks.submit(Waits::sleep).join();
            case "latch":
                return unchecked(() -> new CountDownLatch(1).await());
            case "semaphore":
                return unchecked(() -> new Semaphore(0).acquire());
            case "phaser":
                return () -> new Phaser(2).arriveAndAwaitAdvance();
            case "barrier":
                return unchecked(() -> new CyclicBarrier(2).await());
            case "condition":
                Condition condition = BOOKS.newCondition();
                return unchecked(() -> {
                    BOOKS.lock();
                    condition.await();
                });
            case "stamped":
                start("stamper", () -> {
                    STAMPED.writeLock();
                    sleep();
                });
                return () -> STAMPED.readLock();
            case "exchange":
                return unchecked(() -> new Exchanger<String>().exchange("mine"));
            case "put":
                BlockingQueue<String> full = new ArrayBlockingQueue<>(1);
                full.put("first");
                return unchecked(() -> full.put("second"));
            case "handed": // to nobody
                return unchecked(() -> new SynchronousQueue<String>().put("mine"));
            case "parked": // on nothing
                return () -> {
                    while (true) {
                        LockSupport.park();
                    }
                };
            case "join":
                Thread sleeper = start("sleeper", Waits::sleep);
                return unchecked(() -> sleeper.join());
            case "class": // which another thread has begun to initialise
                start("loader", () -> Rates.of("EUR"));
                return () -> Rates.of("USD");
            case "socket":
                return unchecked(Waits::readSilence);
            case "retry":
                return Waits::retry;
            case "spin":
                return Waits::spin;
            case "limiter":
                RateLimiter limiter = RateLimiter.create(0.001);
                limiter.acquire();
                return () -> acquire(limiter);
            case "virtual": // three by themselves, two of an executor
                for (int each = 0; each < 3; each++) {
                    Thread.class.getMethod("startVirtualThread", Runnable.class)
                            .invoke(null, (Runnable) Waits::sleep);
                }
                ExecutorService virtual = (ExecutorService) Executors.class
                        .getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
                virtual.submit(Waits::sleep);
                virtual.submit(Waits::sleep);
                return null;
            case "rhythm": // it takes the lock again and again, and each time waits for a while
                start("writer", () -> again(2000));
                return () -> again(0);
            default:
                throw new IllegalArgumentException(how);
        }
    }

    // Takes a minute and more until it can be used.
    private static final class Rates {
        static {
            sleep();
        }

        static String of(String currency) {
            return currency;
        }
    }

    private static Thread start(String name, Runnable work) throws InterruptedException {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
        Thread.sleep(300);
        return thread;
    }

    // Who has begun by then what comes after this.
    private static void startSoon(String name, Runnable work) {
        Thread thread = new Thread(() -> {
            rest(300);
            work.run();
        }, name);
        thread.setDaemon(true);
        thread.start();
    }

    private static Runnable unchecked(Step step) {
        return () -> {
            try {
                step.run();
            } catch (Exception failed) {
                throw new IllegalStateException(failed);
            }
        };
    }

    // From somebody who never answers.
    private static void readSilence() throws IOException {
        try (ServerSocket silent = new ServerSocket(0);
                Socket socket = new Socket(silent.getInetAddress(), silent.getLocalPort())) {
            socket.getInputStream().read();
        }
    }

    private static void retry() {
        while (true) {
            rest(400);
        }
    }

    private static void spin() {
        long turns = 0;
        while (turns >= 0) {
            turns = turns % 1000003 + 1;
        }
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
            rest(50); // else the one that holds it may take it again at once
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
