// A Java application that knows nothing of pulsar-doctor and does what a test orders, line by line
// on stdin; each answer is a line that begins with @. It counts what it takes, by itself, and a
// thread of it watches its own clock.

package com.acme;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.pulsar.client.api.ClientBuilder;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.DeadLetterPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;

public final class Client {
    private static final Map<String, Consumer<byte[]>> CONSUMERS = new ConcurrentHashMap<>();
    private static final Map<String, AtomicInteger> TAKEN = new ConcurrentHashMap<>();
    private static final Map<String, String> HOW = new ConcurrentHashMap<>();
    private static final AtomicLong LONGEST_NANOS = new AtomicLong();
    private static PulsarClient client;
    private static Runnable wait;

    public static void main(String[] arguments) throws Exception {
        ClientBuilder builder = PulsarClient.builder().serviceUrl(arguments[0]);
        int listeners = Integer.getInteger("listeners", 0);
        client = (listeners == 0 ? builder : builder.listenerThreads(listeners)).build();
        Thread watch = new Thread(Client::watch, "watch");
        watch.setDaemon(true);
        watch.setPriority(Thread.MAX_PRIORITY);
        watch.start();
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        say("ready");
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            try {
                say(done(line.split(" ")));
            } catch (Exception error) {
                say("error " + error);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static void say(String answer) {
        System.out.println("@" + answer);
        System.out.flush();
    }

    private static void watch() {
        long last = System.nanoTime();
        while (true) {
            try {
                Thread.sleep(1);
            } catch (InterruptedException end) {
                return;
            }
            long now = System.nanoTime();
            long gap = now - last;
            last = now;
            LONGEST_NANOS.accumulateAndGet(gap, Math::max);
        }
    }

    private static String done(String[] order) throws Exception {
        switch (order[0]) {
            case "subscribe":
                return subscribe(order[1], Integer.parseInt(order[2]), order[3], order[4]);
            case "produce":
                return produce(order[1], Integer.parseInt(order[2]));
            case "take":
                return take(order[1], Integer.parseInt(order[2]));
            case "hang":
                return hang(order[1]);
            case "deadlock":
                return deadlock();
            case "wait": // of all listeners that have "waits" in their how; see Waits
                wait = Waits.of(order[1]);
                return "prepared";
            case "handoff":
                return handOff(order[1], Integer.parseInt(order[2]),
                        pool(order[4], Integer.parseInt(order[3])));
            case "pump": // hands over for good what it receives, to threads that wait for a latch
                return pump(order[1], Executors.newFixedThreadPool(Integer.parseInt(order[2])));
            case "pause":
                CONSUMERS.get(order[1]).pause();
                return "paused";
            case "taken":
                return String.valueOf(TAKEN.get(order[1]).get());
            case "longest": // ms since it was asked for last
                return String.valueOf(LONGEST_NANOS.getAndSet(0) / 1000000.0);
            case "threads":
                return String.valueOf(ManagementFactory.getThreadMXBean().getThreadCount());
            case "classes":
                collect();
                return String.valueOf(
                        ManagementFactory.getClassLoadingMXBean().getLoadedClassCount());
            case "heap":
                collect();
                return String.valueOf(
                        ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed());
            default:
                throw new IllegalArgumentException(order[0]);
        }
    }

    /** Also what waits for its finalizer: Java 8 has one for each stream out of a jar. */
    private static void collect() throws InterruptedException {
        System.gc();
        Thread.sleep(100); // another thread hands to the finalizers what that has found
        System.runFinalization();
        System.gc();
    }

    // how: words with + between them: listener, stuck, exclusive, auto, hold (acks), keep (no acks), dead,
    // waits (see wait)
    private static String subscribe(String name, int queue, String how, String topics)
            throws Exception {
        AtomicInteger taken = new AtomicInteger();
        TAKEN.put(name, taken);
        HOW.put(name, how);
        ConsumerBuilder<byte[]> builder = client.newConsumer()
                .topics(Arrays.asList(topics.split(",")))
                .subscriptionName("s")
                .consumerName(name)
                .subscriptionType(SubscriptionType.Shared)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                .receiverQueueSize(queue);
        if (how.contains("exclusive")) {
            builder.subscriptionType(SubscriptionType.Exclusive);
        }
        if (how.contains("listener")) {
            builder.messageListener((consumer, message) -> new Billing().bill(message, taken, how));
        }
        if (how.contains("auto")) {
            builder.autoScaledReceiverQueueSizeEnabled(true);
        }
        if (how.contains("hold")) {
            builder.acknowledgmentGroupTime(10, TimeUnit.MINUTES);
        }
        if (how.contains("dead")) {
            builder.deadLetterPolicy(DeadLetterPolicy.builder()
                    .maxRedeliverCount(7).deadLetterTopic("given-up").build());
            builder.ackTimeout(30, TimeUnit.SECONDS);
        }
        CONSUMERS.put(name, builder.subscribe());
        return "subscribed";
    }

    private static String produce(String topic, int count) throws Exception {
        try (Producer<byte[]> producer =
                client.newProducer().topic(topic).enableBatching(false).create()) {
            for (int each = 0; each < count; each++) {
                producer.newMessage().value(String.valueOf(each).getBytes()).sendAsync();
            }
            producer.flush();
        }
        return "produced";
    }

    private static String take(String name, int count) throws Exception {
        StringBuilder numbers = new StringBuilder();
        for (int each = 0; each < count; each++) {
            Message<byte[]> message = CONSUMERS.get(name).receive();
            TAKEN.get(name).incrementAndGet();
            if (!HOW.get(name).contains("keep")) {
                CONSUMERS.get(name).acknowledgeAsync(message);
            }
            numbers.append(new String(message.getData())).append(' ');
        }
        return numbers.toString().trim();
    }

    private static String hang(String name) throws Exception {
        CountDownLatch there = new CountDownLatch(1);
        Thread worker = new Thread(() -> new Billing().charge(there), "billing-" + name);
        worker.setDaemon(true);
        worker.start();
        there.await();
        return "hangs";
    }

    private static String deadlock() throws Exception {
        Object one = new Object();
        Object other = new Object();
        CountDownLatch both = new CountDownLatch(2);
        for (Object[] locks : new Object[][] {{one, other}, {other, one}}) {
            Thread thread = new Thread(() -> new Billing().lock(locks, both),
                    locks[0] == one ? "left" : "right");
            thread.setDaemon(true);
            thread.start();
        }
        both.await();
        Thread.sleep(200);
        return "deadlocked";
    }

    private static ExecutorService pool(String kind, int threads) {
        return kind.equals("forked") ? new ForkJoinPool(threads)
                : kind.equals("scheduled") ? Executors.newScheduledThreadPool(threads)
                : Executors.newFixedThreadPool(threads);
    }

    // Hands so many messages to a pool, whose threads do not come back.
    private static String handOff(String name, int count, ExecutorService pool) throws Exception {
        for (int each = 0; each < count; each++) {
            Message<byte[]> message = CONSUMERS.get(name).receive();
            TAKEN.get(name).incrementAndGet();
            CompletableFuture.runAsync(() -> new Billing().handle(message), pool);
        }
        return "handed";
    }

    private static String pump(String name, ExecutorService pool) {
        Thread receiver = new Thread(() -> {
            while (true) {
                Message<byte[]> message;
                try {
                    message = CONSUMERS.get(name).receive();
                } catch (org.apache.pulsar.client.api.PulsarClientException end) {
                    return;
                }
                TAKEN.get(name).incrementAndGet();
                pool.execute(() -> new Billing().await(message));
            }
        }, "receiver-" + name);
        receiver.setDaemon(true);
        receiver.start();
        return "pumps";
    }

    // What the application does with a message.
    static final class Billing {
        void bill(Message<byte[]> message, AtomicInteger taken, String how) {
            if (taken.incrementAndGet() > 3 && how.contains("stuck")) {
                read();
            }
            if (taken.get() > 3 && how.contains("waits")) {
                wait.run();
            }
        }

        void handle(Message<byte[]> message) {
            charge(new CountDownLatch(1));
            message.release();
        }

        void await(Message<byte[]> message) {
            try {
                new CountDownLatch(1).await();
            } catch (InterruptedException end) {
                return;
            }
            message.release();
        }

        // From somebody who never answers.
        void read() {
            try (ServerSocket silent = new ServerSocket(0);
                    Socket socket = new Socket(silent.getInetAddress(), silent.getLocalPort())) {
                socket.getInputStream().read();
            } catch (java.io.IOException error) {
                throw new IllegalStateException(error);
            }
        }

        void charge(CountDownLatch there) {
            there.countDown();
            try {
                Thread.sleep(3600000);
            } catch (InterruptedException end) {
                return;
            }
        }

        void lock(Object[] locks, CountDownLatch both) {
            synchronized (locks[0]) {
                both.countDown();
                try {
                    both.await();
                } catch (InterruptedException end) {
                    return;
                }
                synchronized (locks[1]) {
                    both.countDown();
                }
            }
        }
    }
}
