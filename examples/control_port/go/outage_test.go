// A Go program meets a broker in trouble: go test, with `python -m pyproducer broker --control-port 9099` running.
package outage

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ask makes a call of the control port and returns its result.
func ask(t *testing.T, word string, arguments map[string]any) any {
	t.Helper()
	control := os.Getenv("CONTROL")
	if control == "" {
		control = "http://127.0.0.1:9099"
	}
	body, err := json.Marshal(arguments)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Post(control+"/"+word, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		Result  any
		Message string
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || response.StatusCode != 200 {
		t.Fatalf("%s: %s %v", word, answer.Message, err)
	}
	return answer.Result
}

func TestThirdProduceIsRefusedAndSentAgain(t *testing.T) {
	topic := fmt.Sprintf("go-%d", time.Now().UnixNano())
	ask(t, "create_topic", map[string]any{"name": topic})
	fault := ask(t, "faults/on", map[string]any{"api": "Produce", "topic": topic, "after": 2,
		"do": map[string]any{"error": map[string]any{"code": "NOT_LEADER_OR_FOLLOWER"}}}).(map[string]any)["fault"]

	servers := ask(t, "health", nil).(map[string]any)["bootstrap_servers"].(map[string]any)["PLAINTEXT"].([]any)
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Fields(strings.Trim(fmt.Sprint(servers), "[]"))...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for number := 0; number < 4; number++ {
		record := &kgo.Record{Topic: topic, Value: []byte(fmt.Sprint(number))}
		if err := client.ProduceSync(context.Background(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}

	if count := ask(t, fmt.Sprintf("faults/%v/count", fault), nil); count != 1.0 {
		t.Errorf("the fault met %v requests", count)
	}
	if ends := ask(t, "log_end_offsets", map[string]any{"topic": topic}); ends.(map[string]any)["0"] != 4.0 {
		t.Errorf("the log ends at %v: each record once", ends)
	}
}
