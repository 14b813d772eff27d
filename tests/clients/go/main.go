// The Go client under orders: one JSON line in, one JSON line out; see clients/__init__.py.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

type order struct {
	Do           string `json:"do"`
	ServiceURL   string `json:"service_url"`
	TokenFile    string `json:"token_file"`
	Trust        string `json:"trust"`
	Name         string `json:"name"`
	Topic        string `json:"topic"`
	Subscription string `json:"subscription"`
	Type         string `json:"type"`
	Queue        *int   `json:"queue"`
	First        int    `json:"first"`
	Count        int    `json:"count"`
	Bytes        int    `json:"bytes"`
	Batched      bool   `json:"batched"`
	Compression  string `json:"compression"`
	Chunked      bool   `json:"chunked"`
	Ack          string `json:"ack"`
	TimeoutMs    int    `json:"timeout_ms"`
	EveryFrom    *int   `json:"every_from"`
}

type answer map[string]any

type program struct {
	client    pulsar.Client
	consumers map[string]pulsar.Consumer
	producers map[string]pulsar.Producer
}

var compressions = map[string]pulsar.CompressionType{
	"": pulsar.NoCompression, "NONE": pulsar.NoCompression, "LZ4": pulsar.LZ4,
	"ZLIB": pulsar.ZLib, "ZSTD": pulsar.ZSTD, "SNAPPY": pulsar.SNAPPY,
}

var types = map[string]pulsar.SubscriptionType{
	"": pulsar.Exclusive, "Exclusive": pulsar.Exclusive, "Shared": pulsar.Shared,
	"Failover": pulsar.Failover, "Key_Shared": pulsar.KeyShared,
}

const period = 251

func payload(number, size int) []byte {
	data := []byte(fmt.Sprintf("%012d", number))
	for at := number % period; len(data) < size; at++ {
		data = append(data, byte(at%period))
	}
	return data
}

func (p *program) subscribe(o order) (answer, error) {
	options := pulsar.ConsumerOptions{
		Topic: o.Topic, SubscriptionName: o.Subscription, Name: o.Name, Type: types[o.Type],
		NackRedeliveryDelay:         200 * time.Millisecond,
		SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
	}
	if o.Queue != nil {
		options.ReceiverQueueSize = *o.Queue
	}
	consumer, err := p.client.Subscribe(options)
	if err == nil {
		p.consumers[o.Name] = consumer
	}
	return answer{}, err
}

func (p *program) produce(o order) (answer, error) {
	key := fmt.Sprint(o.Topic, o.Batched, o.Compression, o.Chunked)
	if p.producers[key] == nil {
		producer, err := p.client.CreateProducer(pulsar.ProducerOptions{
			Topic: o.Topic, CompressionType: compressions[o.Compression],
			DisableBatching: !o.Batched, BatchingMaxPublishDelay: 20 * time.Millisecond,
			EnableChunking: o.Chunked,
		})
		if err != nil {
			return nil, err
		}
		p.producers[key] = producer
	}
	var failures atomic.Value
	var sent sync.WaitGroup
	digest := sha256.New()
	for number := o.First; number < o.First+o.Count; number++ {
		data := payload(number, o.Bytes)
		digest.Write(data)
		sent.Add(1)
		p.producers[key].SendAsync(context.Background(), &pulsar.ProducerMessage{Payload: data},
			func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
				if err != nil {
					failures.Store(err)
				}
				sent.Done()
			})
	}
	if err := p.producers[key].FlushWithCtx(context.Background()); err != nil {
		return nil, err
	}
	sent.Wait()
	if err, failed := failures.Load().(error); failed {
		return nil, err
	}
	return answer{"sha256": hex.EncodeToString(digest.Sum(nil))}, nil
}

func (p *program) receive(o order) (answer, error) {
	consumer := p.consumers[o.Name]
	digest, inOrder, last, numbers := sha256.New(), true, -1, []int{}
	timeout := 15 * time.Second
	if o.TimeoutMs > 0 {
		timeout = time.Duration(o.TimeoutMs) * time.Millisecond
	}
	var message pulsar.Message
	missing := map[int]bool{}
	for number := 0; o.EveryFrom != nil && number < o.Count; number++ {
		missing[*o.EveryFrom+number] = true
	}
	for at := 0; len(missing) > 0 || (o.EveryFrom == nil && at < o.Count); at++ {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		var err error
		message, err = consumer.Receive(ctx)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("after %d: %w", at, err)
		}
		digest.Write(message.Payload())
		number, err := strconv.Atoi(string(message.Payload()[:12]))
		if err != nil {
			return nil, err
		}
		inOrder = inOrder && (last < 0 || number == last+1)
		last = number
		delete(missing, number)
		if o.Count <= 2000 {
			numbers = append(numbers, number)
		}
		switch o.Ack {
		case "", "individual":
			if err := consumer.Ack(message); err != nil {
				return nil, err
			}
		case "nack":
			consumer.Nack(message)
		}
	}
	if o.Ack == "cumulative" {
		if err := consumer.AckCumulative(message); err != nil {
			return nil, err
		}
	}
	return answer{"sha256": hex.EncodeToString(digest.Sum(nil)), "in_order": inOrder, "numbers": numbers}, nil
}

func (p *program) do(o order) (answer, error) {
	switch o.Do {
	case "subscribe":
		return p.subscribe(o)
	case "produce":
		return p.produce(o)
	case "receive":
		return p.receive(o)
	case "seek":
		// By time: this client's Seek refuses its own EarliestMessageID.
		return answer{}, p.consumers[o.Name].SeekByTime(time.UnixMilli(0))
	case "close":
		for _, producer := range p.producers {
			producer.Close()
		}
		for _, consumer := range p.consumers {
			consumer.Close()
		}
		p.client.Close()
		return answer{}, nil
	}
	return nil, fmt.Errorf("no such order: %s", o.Do)
}

func say(a answer) {
	line, _ := json.Marshal(a)
	fmt.Println(string(line))
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Scan()
	var hello order
	if err := json.Unmarshal(lines.Bytes(), &hello); err != nil {
		panic(err)
	}
	options := pulsar.ClientOptions{URL: hello.ServiceURL}
	if hello.TokenFile != "" {
		options.Authentication = pulsar.NewAuthenticationTokenFromFile(hello.TokenFile)
	}
	if hello.Trust != "" {
		options.TLSTrustCertsFilePath = hello.Trust
		options.TLSValidateHostname = true
	}
	client, err := pulsar.NewClient(options)
	if err != nil {
		say(answer{"error": err.Error()})
		return
	}
	p := &program{client, map[string]pulsar.Consumer{}, map[string]pulsar.Producer{}}
	say(answer{"pid": os.Getpid()})
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			panic(err)
		}
		result, err := p.do(o)
		if err != nil {
			result = answer{"error": err.Error()}
		}
		say(result)
	}
}
