// Drives the Go client: a command is a line of JSON on stdin, so is its answer on stdout.
//
// Commands are worked on side by side, so that a receive may wait while the topic is unloaded.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/crypto"
	plog "github.com/apache/pulsar-client-go/pulsar/log"
)

type command struct {
	ID           int    `json:"id"`
	Do           string `json:"do"`
	URL          string `json:"url"`
	Consumer     int    `json:"consumer"`
	Topic        string `json:"topic"`
	Type         string `json:"type"`
	Name         string `json:"name"`
	Queue        int    `json:"queue"`
	Auto         bool   `json:"auto"`
	Crypto       string `json:"crypto"`
	ChunksMost   int    `json:"chunks_most"`
	ExpireMs     int    `json:"expire_chunks_ms"`
	NackMs       int    `json:"nack_ms"`
	Inclusive    bool   `json:"inclusive"`
	Count        int    `json:"count"`
	Milliseconds int    `json:"milliseconds"`
	Messages     []int  `json:"messages"`
	Ledger       int64  `json:"ledger"`
	Entry        int64  `json:"entry"`
	BatchIndex   int32  `json:"batch_index"`
}

type taken struct {
	Handle     int   `json:"handle"`
	Ledger     int64 `json:"ledger"`
	Entry      int64 `json:"entry"`
	BatchIndex int32 `json:"batch_index"`
}

type answer struct {
	ID       int     `json:"id"`
	Error    string  `json:"error,omitempty"`
	Consumer int     `json:"consumer,omitempty"`
	Messages []taken `json:"messages,omitempty"`
}

type noKey struct{}

func (noKey) PublicKey(string, map[string]string) (*crypto.EncryptionKeyInfo, error) {
	return nil, errors.New("there is no key")
}

func (noKey) PrivateKey(string, map[string]string) (*crypto.EncryptionKeyInfo, error) {
	return nil, errors.New("there is no key")
}

var (
	lock      sync.Mutex
	client    pulsar.Client
	consumers = map[int]pulsar.Consumer{}
	readers   = map[int]pulsar.Reader{}
	ids       = map[int]pulsar.MessageID{}
	next      = 1
	types     = map[string]pulsar.SubscriptionType{
		"exclusive": pulsar.Exclusive, "shared": pulsar.Shared,
		"failover": pulsar.Failover, "key_shared": pulsar.KeyShared,
	}
	actions = map[string]int{
		"fail": crypto.ConsumerCryptoFailureActionFail, "discard": crypto.ConsumerCryptoFailureActionDiscard,
		"consume": crypto.ConsumerCryptoFailureActionConsume,
	}
)

func kept(id pulsar.MessageID) taken {
	lock.Lock()
	defer lock.Unlock()
	next++
	ids[next] = id
	return taken{next, id.LedgerID(), id.EntryID(), id.BatchIdx()}
}

func subscribe(c command) (answer, error) {
	options := pulsar.ConsumerOptions{
		Topic: c.Topic, SubscriptionName: "s", Type: types[c.Type], Name: c.Name,
		SubscriptionInitialPosition:       pulsar.SubscriptionPositionEarliest,
		ReceiverQueueSize:                 c.Queue,
		EnableZeroQueueConsumer:           c.Queue == 0,
		EnableAutoScaledReceiverQueueSize: c.Auto,
		EnableBatchIndexAcknowledgment:    true,
		NackRedeliveryDelay:               time.Duration(c.NackMs) * time.Millisecond,
		MaxPendingChunkedMessage:          c.ChunksMost,
		ExpireTimeOfIncompleteChunk:       time.Duration(c.ExpireMs) * time.Millisecond,
	}
	if c.Queue < 0 { // what a plain 0 means to this client
		options.ReceiverQueueSize = 0
	}
	if c.Crypto != "" {
		options.Decryption = &pulsar.MessageDecryptionInfo{
			KeyReader: noKey{}, ConsumerCryptoFailureAction: actions[c.Crypto],
		}
	}
	consumer, err := client.Subscribe(options)
	if err != nil {
		return answer{}, err
	}
	lock.Lock()
	defer lock.Unlock()
	next++
	consumers[next] = consumer
	return answer{Consumer: next}, nil
}

func reader(c command) (answer, error) {
	reader, err := client.CreateReader(pulsar.ReaderOptions{
		Topic: c.Topic, StartMessageID: ids[c.Messages[0]], StartMessageIDInclusive: c.Inclusive,
		ReceiverQueueSize: c.Queue,
	})
	if err != nil {
		return answer{}, err
	}
	lock.Lock()
	defer lock.Unlock()
	next++
	readers[next] = reader
	return answer{Consumer: next}, nil
}

func receive(c command) (answer, error) {
	var out answer
	for range c.Count {
		wait := time.Duration(c.Milliseconds) * time.Millisecond
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		var message pulsar.Message
		var err error
		lock.Lock()
		reader, consumer := readers[c.Consumer], consumers[c.Consumer]
		lock.Unlock()
		if reader != nil {
			message, err = reader.Next(ctx)
		} else {
			message, err = consumer.Receive(ctx)
		}
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if err != nil {
			return out, err
		}
		out.Messages = append(out.Messages, kept(message.ID()))
	}
	return out, nil
}

func each(c command, do func(pulsar.Consumer, pulsar.MessageID) error) error {
	for _, handle := range c.Messages {
		lock.Lock()
		consumer, id := consumers[c.Consumer], ids[handle]
		lock.Unlock()
		if err := do(consumer, id); err != nil {
			return err
		}
	}
	return nil
}

func run(c command) (answer, error) {
	switch c.Do {
	case "connect":
		quiet := plog.NewLoggerWithSlog(slog.New(slog.NewTextHandler(io.Discard, nil)))
		var err error
		client, err = pulsar.NewClient(pulsar.ClientOptions{URL: c.URL, Logger: quiet})
		return answer{}, err
	case "subscribe":
		return subscribe(c)
	case "reader":
		return reader(c)
	case "receive":
		return receive(c)
	case "ack":
		return answer{}, each(c, pulsar.Consumer.AckID)
	case "nack":
		return answer{}, each(c, func(consumer pulsar.Consumer, id pulsar.MessageID) error {
			consumer.NackID(id)
			return nil
		})
	case "seek":
		return answer{}, each(c, pulsar.Consumer.Seek)
	case "at":
		return answer{Messages: []taken{kept(pulsar.NewMessageID(c.Ledger, c.Entry, c.BatchIndex, -1))}}, nil
	case "close":
		lock.Lock()
		reader, consumer := readers[c.Consumer], consumers[c.Consumer]
		lock.Unlock()
		if reader != nil {
			reader.Close()
		} else if consumer != nil {
			consumer.Close()
		}
		return answer{}, nil
	}
	return answer{}, errors.New("no such command: " + c.Do)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	var writing sync.Mutex
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			panic(err)
		}
		go func() {
			out, err := run(c)
			out.ID = c.ID
			if err != nil {
				out.Error = err.Error()
			}
			line, _ := json.Marshal(out)
			writing.Lock()
			defer writing.Unlock()
			os.Stdout.Write(append(line, '\n'))
		}()
	}
}
