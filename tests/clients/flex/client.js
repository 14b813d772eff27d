// pulsar-flex under orders: one JSON line in, one JSON line out; see clients/__init__.py.
// It knows no proxies, no partitions, no compression, and subscribes at the latest message only.
'use strict';

const { createHash } = require('node:crypto');
const readline = require('node:readline');
const { Consumer, Producer, logLevel } = require('pulsar-flex');

const TYPES = {
  Exclusive: Consumer.SUB_TYPES.EXCLUSIVE,
  Shared: Consumer.SUB_TYPES.SHARED,
  Failover: Consumer.SUB_TYPES.FAILOVER,
  Key_Shared: Consumer.SUB_TYPES.KEY_SHARED,
};
const PERIOD = 251;

const consumers = {};
const producers = {};
let common; // options of consumers and producers alike

function payload(number, size) {
  const data = Buffer.alloc(Math.max(size, 12), String(number).padStart(12, '0'));
  for (let at = 12; at < size; at++) data[at] = (number + at - 12) % PERIOD;
  return data;
}

class Inbox {
  constructor() {
    this.messages = [];
    this.arrived = () => {};
  }

  put(message) {
    this.messages.push(message);
    this.arrived();
  }

  async take(milliseconds) {
    const late = Date.now() + milliseconds;
    while (!this.messages.length) {
      if (Date.now() >= late) throw new Error('no message');
      await new Promise((resolve) => {
        this.arrived = resolve;
        setTimeout(resolve, late - Date.now());
      });
    }
    return this.messages.shift();
  }
}

const orders = {
  async subscribe({ name, topic, subscription, type = 'Exclusive', queue = 1000 }) {
    const consumer = new Consumer({
      ...common, topic, subscription, subType: TYPES[type], consumerName: name,
      receiveQueueSize: queue, reconnectInterval: 200,
    });
    const inbox = new Inbox();
    await consumer.subscribe();
    await consumer.run({ onMessage: async (message) => inbox.put(message), autoAck: false });
    consumers[name] = { consumer, inbox };
    return {};
  },

  async produce({ topic, first, count, bytes }) {
    if (!producers[topic]) {
      const shared = Producer.ACCESS_MODES.SHARED;
      producers[topic] = new Producer({ ...common, topic, producerAccessMode: shared });
      await producers[topic].create();
    }
    const digest = createHash('sha256');
    for (let number = first; number < first + count; number++) {
      const data = payload(number, bytes);
      digest.update(data);
      await producers[topic].sendMessage({ payload: data, properties: {} });
    }
    return { sha256: digest.digest('hex') };
  },

  async receive({ name, count, ack = 'individual', timeout_ms = 15_000, every_from }) {
    const digest = createHash('sha256');
    const numbers = [];
    const missing = new Set();
    for (let at = 0; at < count && every_from !== undefined; at++) missing.add(every_from + at);
    while (every_from === undefined ? numbers.length < count : missing.size) {
      const taken = await consumers[name].inbox.take(timeout_ms);
      digest.update(taken.message);
      numbers.push(Number(taken.message.subarray(0, 12)));
      missing.delete(numbers.at(-1));
      if (ack === 'individual') await taken.ack();
      else if (ack !== 'none') throw new Error(`not of this client: ${ack}`);
    }
    const in_order = numbers.every((number, at) => !at || number === numbers[at - 1] + 1);
    return { sha256: digest.digest('hex'), in_order, numbers: count <= 2000 ? numbers : [] };
  },

  async close() {
    for (const producer of Object.values(producers)) await producer.close();
    for (const { consumer } of Object.values(consumers)) await consumer.unsubscribe();
    return {};
  },
};

const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);

function greeted({ service_url }) {
  common = {
    discoveryServers: service_url.replace(/^pulsar:\/\//, '').split(','),
    logLevel: logLevel.INFO,
    logCreator: () => ({ label, log }) => console.error(`${log.timestamp} ${label} ${log.message}`),
  };
  return { pid: process.pid };
}

async function obey() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const order = JSON.parse(line);
    try {
      say(common ? await orders[order.do](order) : greeted(order));
    } catch (error) {
      say({ error: `${error.name}: ${error.message}` });
    }
  }
  process.exit();
}

obey();
