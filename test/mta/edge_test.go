//go:build interop

package mta

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// upstreamTotal returns what the edge has counted of its upstream.
func (n *node) upstreamTotal(t testing.TB, what string) int {
	t.Helper()
	m := regexp.MustCompile(`(?m)^bulkhead_upstream_total\{what="` + what +
		`"\} ([0-9]+)$`).FindStringSubmatch(n.metrics(t))
	if m == nil {
		t.Fatalf("no %s among the metrics", what)
	}
	total, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return total
}

// TestPostfixEdge has Postfix ask an edge. While the upstream is killed, mail that it
// knows as spam is taken, and counted as let through; when it is back, it is refused.
func TestPostfixEdge(t *testing.T) {
	up := newNode(t, "")
	up.start(t)
	n := newNode(t, fmt.Sprintf("[milter]\nspam = \"reject\"\ntimeout = \"5m\"\n[upstream]\n"+
		"url = \"http://%s\"\ntoken_file = %q\ntimeout = \"1m\"\n",
		up.http, filepath.Join(up.dir, "data/admin.token")))
	n.start(t)
	sink := startSink(t)
	p := startPostfix(t, sink.addr,
		fmt.Sprintf("smtpd_milters = inet:%s\nmilter_default_action = tempfail\nmilter_protocol = 6\n", n.milter))
	c := dialSMTP(t, p.addr)
	c.xclient(t, "ADDR=198.51.100.7 NAME=client.example.org")
	send := func(subject, text string) int {
		t.Helper()
		code, _ := c.message(t, "ann@shop.example", []string{"bob@example.com"}, "Subject: "+subject+"\n\n"+text)
		return code
	}
	report := func() (code int, out string) {
		cmd := exec.Command(n.bin, "report", "--server", "http://"+n.http, "-")
		cmd.Stdin = strings.NewReader("Subject: parcel\n\n" + spam)
		output, _ := cmd.CombinedOutput()
		return cmd.ProcessState.ExitCode(), string(output)
	}
	if code := send("before", spam); code != 250 {
		t.Fatalf("before the report: %d, want 250", code)
	}
	sink.await(t, "before")
	if code, out := report(); code != 0 {
		t.Fatalf("report: exit code %d, %s", code, out)
	}
	if code := send("reported", spam); code != 550 {
		t.Errorf("after the report: %d, want 550", code)
	}
	if failed := n.upstreamTotal(t, "fail_open"); failed != 0 {
		t.Errorf("%d checks failed though the upstream was there", failed)
	}

	// A sighting is counted after its message was answered. The spool would also keep one that is still under way.
	nodetest.Await(t, "two counted sightings", func() bool {
		return strings.Contains(n.metrics(t), "\nbulkhead_door_reports_total{door=\"milter\",vote=\"sighting\"} 2\n")
	})
	up.process.Kill()
	for i := range 3 {
		subject := fmt.Sprintf("away-%d", i)
		if code := send(subject, spam); code != 250 {
			t.Errorf("without the upstream: %d, want 250", code)
		}
		if d := sink.await(t, subject); !strings.Contains(d.data, "X-Bulkhead: none") {
			t.Errorf("without the upstream:\n%s", d.data)
		}
		if failed := n.upstreamTotal(t, "fail_open"); failed != i+1 {
			t.Errorf("%d checks were counted as failed, want %d", failed, i+1)
		}
	}
	// The messages' own sightings wait in the spool, and so does a report.
	nodetest.Await(t, "kept sightings", func() bool { return n.upstreamTotal(t, "spooled") == 3 })
	if code, out := report(); code != 0 {
		t.Errorf("a report without the upstream: exit code %d, %s; want 0", code, out)
	}
	if kept := n.upstreamTotal(t, "spooled"); kept != 4 {
		t.Errorf("%d reports were counted as kept, want 4", kept)
	}
	if !strings.Contains(n.metrics(t), "\nbulkhead_upstream_up 0\n") {
		t.Error("the metrics do not say that the upstream is away")
	}

	up.start(t)
	nodetest.Await(t, "mail refused again", func() bool { return send("back", spam) == 550 })
	if !strings.Contains(n.metrics(t), "\nbulkhead_upstream_up 1\n") {
		t.Error("the metrics do not say that the upstream is reachable again")
	}
	nodetest.Await(t, "an empty spool", func() bool {
		return strings.Contains(n.metrics(t), "\nbulkhead_upstream_spool_reports 0\n")
	})
	if code := send("clean", prose(1)); code != 250 {
		t.Errorf("clean mail: %d, want 250", code)
	}
	sink.await(t, "clean")
}
