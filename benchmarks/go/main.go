// franz-go under the workload of workload.py: flags in, one line of JSON out.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	mode             = flag.String("mode", "rate", "rate or latency")
	bootstrapServers = flag.String("bootstrap-servers", "", "host:port")
	topic            = flag.String("topic", "", "")
	recordCount      = flag.Int("record-count", 0, "")
	valueSizeBytes   = flag.Int("value-size-bytes", 0, "")
	keyCount         = flag.Int("key-count", 0, "")
	keyed            = flag.Int("keyed", 1, "")
	hasHeader        = flag.Int("has-header", 0, "")
	compression      = flag.String("compression", "none", "")
	lingerMs         = flag.Int("linger-ms", 0, "")
	batchSizeBytes   = flag.Int("batch-size-bytes", 0, "")
	outOfTheBox      = flag.Int("out-of-the-box", 0, "")
	valuesFile       = flag.String("values-file", "", "every value, one after the other")
	warmUpS          = flag.Float64("warm-up-s", 0, "how long to send unmeasured: once at least")
)

const firstCount, mostRehearsed = 500, 50_000 // as in workload.py

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func options() []kgo.Opt {
	options := []kgo.Opt{
		kgo.SeedBrokers(*bootstrapServers), kgo.DefaultProduceTopic(*topic), kgo.RequiredAcks(kgo.AllISRAcks()),
	}
	if *outOfTheBox == 0 {
		options = append(options, kgo.ProducerLinger(time.Duration(*lingerMs)*time.Millisecond),
			kgo.ProducerBatchMaxBytes(int32(*batchSizeBytes)), kgo.ProducerBatchCompression(codecs[*compression]))
	}
	return options
}

func main() {
	flag.Parse()
	all, err := os.ReadFile(*valuesFile)
	check(err)
	keys, values := make([][]byte, *keyCount), make([][]byte, *keyCount)
	for i := range values {
		if *keyed == 1 {
			keys[i] = fmt.Appendf(nil, "k%07d", i)
		}
		values[i] = all[i**valueSizeBytes : (i+1)**valueSizeBytes]
	}
	client, err := kgo.NewClient(options()...)
	check(err)
	defer client.Close()
	if *mode == "latency" {
		latency(client, keys, values)
	} else {
		rate(client, keys, values)
	}
}

// record returns one as workload.py describes it.
func record(key, value []byte) *kgo.Record {
	if *hasHeader == 1 {
		return &kgo.Record{Key: key, Value: value,
			Headers: []kgo.RecordHeader{{Key: "trace", Value: []byte("0123456789abcdef")}}}
	}
	return &kgo.Record{Key: key, Value: value}
}

func rate(client *kgo.Client, keys, values [][]byte) {
	end := rehearsalsEnd()
	for ok := true; ok; ok = time.Now().Before(end) {
		sendAll(client, keys, values, max(firstCount, min(*recordCount, mostRehearsed)))
	}
	before, _ := usage()
	started := time.Now()
	sendAll(client, keys, values, *recordCount)
	seconds := time.Since(started).Seconds()
	after, peakMemoryBytes := usage()
	print(map[string]any{"client": "franz-go", "record_count": *recordCount, "seconds": seconds,
		"cpu_seconds": after - before, "peak_memory_bytes": peakMemoryBytes})
}

// rehearsalsEnd returns when what is sent begins to be measured.
func rehearsalsEnd() time.Time {
	return time.Now().Add(time.Duration(*warmUpS * float64(time.Second)))
}

// sendAll sends so many records, and returns when all are answered.
func sendAll(client *kgo.Client, keys, values [][]byte, count int) {
	stored, failed := 0, 0
	promise := func(_ *kgo.Record, err error) { // one goroutine runs all promises
		if err == nil {
			stored++
		} else {
			failed++
		}
	}
	for i := range count {
		row := i % len(values)
		client.Produce(context.Background(), record(keys[row], values[row]), promise)
	}
	check(client.Flush(context.Background()))
	if stored != count {
		check(fmt.Errorf("%d of %d records were stored, %d failed", stored, count, failed))
	}
}

func latency(client *kgo.Client, keys, values [][]byte) {
	end := rehearsalsEnd()
	for i := 0; i < firstCount || time.Now().Before(end); i++ {
		row := i % len(values)
		check(client.ProduceSync(context.Background(), record(keys[row], values[row])).FirstErr())
	}
	waits := make([]time.Duration, *recordCount)
	for i := range *recordCount {
		row := i % len(values)
		started := time.Now()
		check(client.ProduceSync(context.Background(), record(keys[row], values[row])).FirstErr())
		waits[i] = time.Since(started)
	}
	slices.Sort(waits)
	at := func(share float64) float64 {
		return float64(waits[min(len(waits)-1, int(share*float64(len(waits))))].Nanoseconds()) / 1000
	}
	print(map[string]any{"client": "franz-go", "record_count": *recordCount, "p50_us": at(0.5), "p99_us": at(0.99),
		"p999_us": at(0.999)})
}

// usage returns the CPU seconds of this process, and the largest resident size so far.
func usage() (float64, int64) {
	var spent syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &spent))
	peak := int64(spent.Maxrss)
	if status, err := os.ReadFile("/proc/self/status"); err == nil { // Maxrss begins with that of who started us
		for _, line := range strings.Split(string(status), "\n") {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmHWM:" {
				kib, err := strconv.ParseInt(fields[1], 10, 64)
				check(err)
				peak = kib * 1024
			}
		}
	}
	return time.Duration(spent.Utime.Nano() + spent.Stime.Nano()).Seconds(), peak
}

func print(result map[string]any) {
	check(json.NewEncoder(os.Stdout).Encode(result))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
