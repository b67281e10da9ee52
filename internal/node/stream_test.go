package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/testing/natstest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
	"github.com/bulkhead-mail/bulkhead/internal/trial"
)

// TestJournalInStream runs a node whose journal is in a stream. While the servers are away, it refuses reports, names
// the reason everywhere, and answers checks. Nothing that it acknowledged is lost by restarts, nor with its store.
func TestJournalInStream(t *testing.T) {
	server := natstest.Start(t)
	wire := nodetest.NewWire(t, server)
	dir := filepath.Join(t.TempDir(), "data")
	text := fmt.Sprintf("[listen]\nhttp = \"127.0.0.1:0\"\n[journal]\nkind = \"jetstream\"\nservers = [\"nats://%s\"]\n",
		wire.Address())
	open := func() (*Node, func() error) {
		t.Helper()
		return start(t, Options{Config: parse(t, text), Dir: dir})
	}
	n, stop := open()
	rng, want := rand.New(rand.NewPCG(34, 9)), make(map[byte]uint32)
	signature := func(k byte) bulkhead.Signature { return bulkhead.MustSignature(bulkhead.Exact, []byte{'m', k}) }
	send := func(times int) {
		t.Helper()
		for range times {
			k := byte(rng.IntN(20))
			counts(t, n, signature(k), 2)
			want[k] += 2
		}
	}
	compare := func(when string) {
		t.Helper()
		for k := range byte(20) {
			if got := sees(t, n, signature(k)); got != want[k] {
				t.Errorf("%s: message %d was seen %d times, want %d", when, k, got, want[k])
			}
		}
	}
	ready := func() string {
		t.Helper()
		status, text := get(t, address(t, n, "http")+"/readyz?verbose")
		if status != http.StatusOK {
			t.Errorf("/readyz answers %d: %s", status, text)
		}
		return strings.TrimSpace(text)
	}
	send(60)
	compare("at first")
	j := n.state.State(t.Context()).Journal
	if j == nil || j.Last != n.store.LastIndex() || j.Problem != "" || j.Replicas != 1 {
		t.Errorf("the stream is %+v", j)
	}
	if up := scrape(t, n)["bulkhead_journal_stream_up"]; up != 1 || ready() != "ready\nreports are taken" {
		t.Errorf("the stream is up: %v; /readyz: %s", up, ready())
	}

	wire.Partition(true)
	wire.Sever()
	report := bulkhead.Report{Signatures: []bulkhead.Signature{signature(1)}, ID: "refused"}
	for range 3 {
		if _, err := n.engine.Report(t.Context(), report); !errors.Is(err, bulkhead.ErrReadOnly) {
			t.Fatalf("a report without the servers: %v", err)
		}
	}
	compare("without the servers")
	await.True(t, "the reason in the node's state", func() bool {
		s := n.state.State(t.Context())
		return strings.Contains(s.ReadOnly, "bulkhead-journal") && s.Journal.Problem != ""
	})
	if up := scrape(t, n)["bulkhead_journal_stream_up"]; up != 0 || !strings.Contains(ready(), "stream of the journal") {
		t.Errorf("the stream is up: %v; /readyz: %s", up, ready())
	}
	rows, err := (&trial.Prober{Node: admin.New(address(t, n, "http"), "")}).Doors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	named := false
	for _, row := range rows {
		named = named || !row.OK && strings.Contains(row.Found, "bulkhead-journal") && strings.Contains(row.Mend, "[journal]")
	}
	if !named {
		t.Errorf("doctor does not name the stream: %+v", rows)
	}
	wire.Partition(false)
	await.True(t, "a report after the servers are back", func() bool {
		_, err := n.engine.Report(t.Context(), report)
		return err == nil
	})
	want[1]++
	send(20)
	compare("after the servers are back")

	for _, loss := range []string{"a restart", "the loss of the store"} {
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if loss != "a restart" {
			if err := os.RemoveAll(filepath.Join(dir, StoreFolder)); err != nil {
				t.Fatal(err)
			}
		}
		n, stop = open()
		compare("after " + loss)
		send(20)
		compare("reports after " + loss)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	_, err = Open(t.Context(), Options{Config: parse(t, text), Dir: filepath.Join(t.TempDir(), "other")})
	if err == nil || !strings.Contains(err.Error(), "another node") {
		t.Errorf("a new node takes the stream of another one: %v", err)
	}
	purge(t, server, 20)
	n, stop = open()
	compare("with entries dropped that the store has")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, StoreFolder)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Config: parse(t, text), Dir: dir}); err == nil ||
		!strings.Contains(err.Error(), "restore a later backup") {
		t.Errorf("a node without a store takes a stream that does not begin with its first entry: %v", err)
	}
}

// purge removes the messages below a sequence from the stream.
func purge(t *testing.T, address string, before uint64) {
	t.Helper()
	s, err := natstest.JetStream(t, "nats://"+address).Stream(context.Background(), "bulkhead-journal")
	if err == nil {
		err = s.Purge(context.Background(), jetstream.WithPurgeSequence(before))
	}
	if err != nil {
		t.Fatal(err)
	}
}
