// franz-go through a consumer group and transactions. Arguments: bootstrap servers, topic, copy, number of records.
//
// Writes the records to the topic, carries them to the copy in transactions that hold the group's offsets, commits and
// aborts one transaction more, and prints every value that a read_committed group reads from the copy.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	perTransaction = 10_000
	extra          = 100
)

var bootstrapServers, topic, copyTopic string

func main() {
	bootstrapServers, topic, copyTopic = os.Args[1], os.Args[2], os.Args[3]
	count, err := strconv.Atoi(os.Args[4])
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // GIVE_UP_S of patience.py
	defer cancel()
	produce(ctx, count)
	carry(ctx, count)
	commitAndAbort(ctx)
	read(ctx, count+extra)
}

func client(options ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(bootstrapServers))...)
	check(err)
	return client
}

func produce(ctx context.Context, count int) {
	client := client(kgo.DefaultProduceTopic(topic))
	defer client.Close()
	for i := range count {
		client.Produce(ctx, &kgo.Record{Key: fmt.Appendf(nil, "k%d", i%1000), Value: fmt.Appendf(nil, "v%d", i)}, stored)
	}
	check(client.Flush(ctx))
}

func carry(ctx context.Context, count int) {
	session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(bootstrapServers), kgo.ConsumerGroup("carriers"),
		kgo.ConsumeTopics(topic), kgo.TransactionalID("carrier"), kgo.RequireStableFetchOffsets(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	check(err)
	defer session.Close()
	for carried := 0; carried < count; {
		fetches := session.PollRecords(ctx, perTransaction)
		check(fetches.Err())
		check(session.Begin())
		fetches.EachRecord(func(record *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Topic: copyTopic, Key: record.Key, Value: record.Value}, stored)
		})
		committed, err := session.End(ctx, kgo.TryCommit)
		check(err)
		if !committed {
			check(fmt.Errorf("a transaction was aborted behind %d records", carried))
		}
		carried += fetches.NumRecords()
	}
}

func commitAndAbort(ctx context.Context) {
	client := client(kgo.DefaultProduceTopic(copyTopic), kgo.TransactionalID("extra"))
	defer client.Close()
	for _, end := range []struct {
		name   string
		commit kgo.TransactionEndTry
	}{{"kept", kgo.TryCommit}, {"lost", kgo.TryAbort}} {
		check(client.BeginTransaction())
		for i := range extra {
			client.Produce(ctx, &kgo.Record{Value: fmt.Appendf(nil, "%s%d", end.name, i)}, stored)
		}
		check(client.Flush(ctx))
		check(client.EndTransaction(ctx, end.commit))
	}
}

func read(ctx context.Context, count int) {
	client := client(kgo.ConsumerGroup("readers"), kgo.ConsumeTopics(copyTopic), kgo.DisableAutoCommit(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	out := bufio.NewWriter(os.Stdout)
	for found := 0; found < count; {
		fetches := client.PollFetches(ctx)
		check(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			fmt.Fprintf(out, "%s\n", record.Value)
		})
		found += fetches.NumRecords()
	}
	check(client.CommitUncommittedOffsets(ctx))
	check(out.Flush())
}

func stored(_ *kgo.Record, err error) { check(err) }

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
