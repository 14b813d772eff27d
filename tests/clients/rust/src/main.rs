// pulsar-rs under orders: one JSON line in, one JSON line out; see clients/__init__.py.
// It subscribes, produces one by one, receives with ack individual, nack or none, and closes; built
// without compression.

use std::collections::{HashMap, HashSet};
use std::io::{stdin, BufRead};
use std::time::Duration;

use futures::StreamExt;
use log::{LevelFilter, Log, Metadata, Record};
use pulsar::consumer::{Consumer, ConsumerOptions, InitialPosition};
use pulsar::producer::Producer;
use pulsar::{OperationRetryOptions, Pulsar, SubType, TokioExecutor};
use serde_json::{json, Value};
use sha2::{Digest, Sha256};

type Failure = Box<dyn std::error::Error>;
type Answer = Result<Value, Failure>;

const PERIOD: usize = 251;
const NUMBERS_MOST: u64 = 2000;

struct Program {
    client: Pulsar<TokioExecutor>,
    consumers: HashMap<String, Consumer<Vec<u8>, TokioExecutor>>,
    producers: HashMap<String, Producer<TokioExecutor>>,
}

impl Program {
    async fn connected(hello: &Value) -> Result<Program, Failure> {
        let soon = OperationRetryOptions {
            retry_delay: Duration::from_millis(200),
            ..Default::default()
        };
        let client = Pulsar::builder(text(hello, "service_url", ""), TokioExecutor)
            .with_operation_retry_options(soon)
            .build()
            .await?;
        Ok(Program {
            client,
            consumers: HashMap::new(),
            producers: HashMap::new(),
        })
    }

    async fn obeyed(&mut self, order: &Value) -> Answer {
        match text(order, "do", "") {
            "subscribe" => self.subscribe(order).await,
            "produce" => self.produce(order).await,
            "receive" => self.receive(order).await,
            "close" => self.close().await,
            other => Err(format!("not of this client: {other}").into()),
        }
    }

    async fn subscribe(&mut self, order: &Value) -> Answer {
        let kind = match text(order, "type", "Exclusive") {
            "Exclusive" => SubType::Exclusive,
            "Shared" => SubType::Shared,
            "Failover" => SubType::Failover,
            "Key_Shared" => SubType::KeyShared,
            other => return Err(format!("no such type: {other}").into()),
        };
        let name = text(order, "name", "").to_string();
        let held = number(order, "held", 1000); // its own default, whatever the queue
        let options = ConsumerOptions::default()
            .with_initial_position(InitialPosition::Earliest)
            .with_receiver_queue_size(held as u32);
        let consumer = self
            .client
            .consumer()
            .with_topic(text(order, "topic", ""))
            .with_subscription(text(order, "subscription", ""))
            .with_subscription_type(kind)
            .with_consumer_name(&name)
            .with_batch_size(number(order, "queue", 1000) as u32) // what it asks for at a time
            .with_options(options)
            .build()
            .await?;
        self.consumers.insert(name, consumer);
        Ok(json!({}))
    }

    async fn produce(&mut self, order: &Value) -> Answer {
        let topic = text(order, "topic", "").to_string();
        if !self.producers.contains_key(&topic) {
            let made = self.client.producer().with_topic(&topic).build().await?;
            self.producers.insert(topic.clone(), made);
        }
        let producer = self.producers.get_mut(&topic).ok_or("no producer")?;
        let (first, size) = (number(order, "first", 0), number(order, "bytes", 0));
        let mut digest = Sha256::new();
        for each in first..first + number(order, "count", 0) {
            let data = payload(each as usize, size as usize);
            digest.update(&data);
            producer.send_non_blocking(data).await?.await?;
        }
        Ok(json!({ "sha256": hex(digest) }))
    }

    async fn receive(&mut self, order: &Value) -> Answer {
        let consumer = self
            .consumers
            .get_mut(text(order, "name", ""))
            .ok_or("no such consumer")?;
        let patience = Duration::from_millis(number(order, "timeout_ms", 15_000));
        let ack = text(order, "ack", "individual");
        let count = number(order, "count", 0);
        let from = order["every_from"].as_u64();
        let mut missing: HashSet<u64> = from.map_or(HashSet::new(), |n| (n..n + count).collect());
        let (mut digest, mut numbers) = (Sha256::new(), Vec::new());
        while !missing.is_empty() || (from.is_none() && (numbers.len() as u64) < count) {
            let message = tokio::time::timeout(patience, consumer.next())
                .await
                .map_err(|_| format!("no message after {}", numbers.len()))?
                .ok_or("the consumer has ended")??;
            let data = &message.payload.data;
            digest.update(data);
            let number = std::str::from_utf8(&data[..12])?.parse()?;
            missing.remove(&number);
            numbers.push(number);
            match ack {
                "individual" => consumer.ack(&message).await?,
                "nack" => consumer.nack(&message).await?,
                "none" => (),
                other => return Err(format!("not of this client: {other}").into()),
            }
        }
        let in_order = numbers.windows(2).all(|pair| pair[1] == pair[0] + 1);
        if count > NUMBERS_MOST {
            numbers.clear();
        }
        Ok(json!({ "sha256": hex(digest), "in_order": in_order, "numbers": numbers }))
    }

    async fn close(&mut self) -> Answer {
        for producer in self.producers.values_mut() {
            producer.close().await?;
        }
        for consumer in self.consumers.values_mut() {
            consumer.close().await?;
        }
        Ok(json!({}))
    }
}

/// Numbered, as clients/payloads.py makes them.
fn payload(number: usize, size: usize) -> Vec<u8> {
    let mut data = format!("{number:012}").into_bytes();
    data.extend((number..number + size.saturating_sub(12)).map(|at| (at % PERIOD) as u8));
    data
}

fn text<'a>(order: &'a Value, field: &str, default: &'a str) -> &'a str {
    order[field].as_str().unwrap_or(default)
}

fn number(order: &Value, field: &str, default: u64) -> u64 {
    order[field].as_u64().unwrap_or(default)
}

fn hex(digest: Sha256) -> String {
    format!("{:x}", digest.finalize())
}

struct ToStderr;

impl Log for ToStderr {
    fn enabled(&self, _: &Metadata) -> bool {
        true
    }

    fn log(&self, record: &Record) {
        eprintln!("{} {} {}", record.level(), record.target(), record.args());
    }

    fn flush(&self) {}
}

fn main() -> Result<(), Failure> {
    log::set_logger(&ToStderr).expect("the only logger");
    log::set_max_level(LevelFilter::Info);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let _inside = runtime.enter(); // consumers and producers that are dropped say so in tasks
    let mut program = None;
    for line in stdin().lock().lines() {
        let order: Value = serde_json::from_str(&line?)?;
        let answer = match program.as_mut() {
            Some(program) => runtime.block_on(Program::obeyed(program, &order)),
            None => runtime
                .block_on(Program::connected(&order))
                .map(|connected| {
                    program = Some(connected);
                    json!({ "pid": std::process::id() })
                }),
        };
        println!(
            "{}",
            answer.unwrap_or_else(|error| json!({ "error": error.to_string() }))
        );
    }
    Ok(())
}
