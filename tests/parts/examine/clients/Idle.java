// A Java program without a Pulsar client.

package com.acme;

public final class Idle {
    public static void main(String[] arguments) throws Exception {
        System.out.println("@ready");
        Thread.sleep(3600000);
    }
}
