package node

import (
	"bufio"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
	"github.com/bulkhead-mail/bulkhead/internal/trial"
)

// scrape returns the samples of /metrics by their names with labels.
func scrape(t *testing.T, n *Node) map[string]float64 {
	t.Helper()
	status, text := get(t, address(t, n, "http")+"/metrics")
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, text)
	}
	samples := make(map[string]float64)
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		if at := strings.LastIndexByte(line, ' '); at > 0 && !strings.HasPrefix(line, "#") {
			v, err := strconv.ParseFloat(line[at+1:], 64)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			samples[line[:at]] = v
		}
	}
	return samples
}

// TestDoorMetrics checks that every door has a histogram of its answers, which grows with each
// answer to a client of the door. The checks of all doors add up to the node's number, without the
// node's own looks.
func TestDoorMetrics(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	n, _ := start(t, Options{Config: everyDoor(t, "[http]\nanonymous_report = \"loopback\"\n"), Dir: dir,
		Version: "1.2.3"})
	before := scrape(t, n)
	for _, name := range []string{"go_goroutines", "process_resident_memory_bytes", "process_open_fds"} {
		if before[name] <= 0 {
			t.Errorf("%s is %v", name, before[name])
		}
	}
	for name, v := range before {
		if strings.HasPrefix(name, "bulkhead_build_info{") && (v != 1 || !strings.Contains(name, `version="1.2.3"`)) {
			t.Errorf("%s is %v", name, v)
		}
		if strings.HasPrefix(name, "bulkhead_door_checks_total{") && v != 0 {
			t.Errorf("%s is %v before anybody asked", name, v)
		}
	}
	c := admin.New(address(t, n, "http"), "")
	rows, err := (&trial.Prober{Node: c}).Doors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if !r.OK && r.Name != "dnsbl" { // it has no zone here
			t.Errorf("%s: %s", r.Name, r.Found)
		}
	}
	// An answer is counted once it has been sent, perhaps after the client has it.
	var after map[string]float64
	nodetest.Await(t, "every door counts its answers", func() bool {
		after = scrape(t, n)
		for _, d := range config.Default().Listen.Doors() {
			if name := `bulkhead_door_answer_seconds_count{door="` + d.Key + `"}`; after[name] <= before[name] {
				return false
			}
		}
		return true
	})
	checks := 0.0
	for _, d := range config.Default().Listen.Doors() {
		label := `{door="` + d.Key + `"}`
		name := "bulkhead_door_answer_seconds_count" + label
		inf := `bulkhead_door_answer_seconds_bucket{door="` + d.Key + `",le="+Inf"}`
		if after[inf] != after[name] {
			t.Errorf("%s is %v, the count %v", inf, after[inf], after[name])
		}
		n := after["bulkhead_door_checks_total"+label]
		if asks := d.Key != "policy" && d.Key != "dnsbl"; asks != (n > 0) {
			t.Errorf("%s: %v checks", d.Key, n)
		}
		checks += n
	}
	// The engine never sees a check of the test message.
	engine := n.engine.Info().Checks
	if checks <= float64(engine) {
		t.Errorf("the doors have %v checks, the engine %v", checks, engine)
	}
	mail := []byte(
		"From: a@example.com\r\nSubject: garden\r\n\r\n" + strings.Repeat(
			"The meeting of the garden club moves to Tuesday, in the old hall.\r\nBring seeds, gloves and the "+
				"minutes of the last one.\r\n",
			3))
	for range 3 {
		if _, err := c.CheckMessage(t.Context(), mail, client.MessageOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	last := scrape(t, n)
	if got := last[`bulkhead_door_verdicts_total{class="unknown",`+
		`door="http"}`] - after[`bulkhead_door_verdicts_total{class="unknown",door="http"}`]; got != 3 {
		t.Errorf("%v verdicts more, want 3", got)
	}
	if got := n.engine.Info().Checks - engine; got != 3 {
		t.Errorf("%v checks more, want 3", got)
	}
}
