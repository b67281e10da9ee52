package mesh

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// start opens and runs a mesh, and returns it with a function that ends it.
func start(t testing.TB, o member.Options) (*Mesh, func()) {
	t.Helper()
	o.KeyID = enginetest.Secret.ID()
	if o.Log == nil && testing.Verbose() {
		o.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})).With("node", o.Name)
	}
	m, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := errors.Join(<-done, m.Close()); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return m, stop
}

// freePort returns a free address on the loopback interface that is given out once.
func freePort(t testing.TB) string {
	t.Helper()
	return nodetest.Address(t)
}

// TestTwoNodes checks that a report on one node is known to the other within two seconds at default
// settings, both ways, through an embedded hub with TLS.
func TestTwoNodes(t *testing.T) {
	ctx := t.Context()
	address := freePort(t)
	hubDir, hubID := meshtest.Folder(t)
	joinDir, joinID := meshtest.Folder(t)
	a, b := enginetest.Small(t, nil), enginetest.Small(t, nil)
	hub, _ := start(t, member.Options{Dir: hubDir, Identity: hubID, Engine: a, Mode: member.Hub, Listen: address,
		Name: "hub"})
	join, _ := start(t, member.Options{Dir: joinDir, Identity: joinID, Engine: b, Mode: member.Join,
		Servers: []string{address},
		Name:    "join"})
	if err := errors.Join(hub.AddPeer(ctx, joinID.ID(), "", 1), join.AddPeer(ctx, hubID.ID(), "", 1)); err != nil {
		t.Fatal(err)
	}
	enginetest.Eventually(t, time.Minute, "connected", func() bool { return join.Status().Brokers[0].Connected })
	for n, from := range []*engine.Engine{a, b, a, b} {
		to := map[*engine.Engine]*engine.Engine{a: b, b: a}[from]
		enginetest.Report(t, from, n, bulkhead.Spam, 1)
		begun := time.Now()
		// The vote and the listing are in two arrays, which may arrive one after the other.
		enginetest.Eventually(t, time.Minute, fmt.Sprintf("signature %d is known to the peer and listed", n), func() bool {
			f := enginetest.Check(t, to, n)
			return f.Spam == 1 && f.Judged == bulkhead.JudgedSpam
		})
		t.Logf("visible after %v", time.Since(begun).Round(time.Millisecond))
	}
}

// TestTuned checks that with a short interval a report is visible within 200 ms on an idle machine;
// the test allows for a busy one.
func TestTuned(t *testing.T) {
	address := freePort(t)
	hubDir, hubID := meshtest.Folder(t)
	joinDir, joinID := meshtest.Folder(t)
	a, b := enginetest.Small(t, nil), enginetest.Small(t, nil)
	tuned := func(o member.Options) member.Options { o.Interval = 100 * time.Millisecond; return o }
	hub, _ := start(t, tuned(member.Options{Dir: hubDir, Identity: hubID, Engine: a, Mode: member.Hub, Listen: address,
		Name: "hub"}))
	join, _ := start(t, tuned(member.Options{Dir: joinDir, Identity: joinID, Engine: b, Mode: member.Join,
		Servers: []string{address},
		Name:    "join"}))
	befriend(t, hub, join)
	enginetest.Eventually(t, time.Minute, "connected", func() bool { return join.Status().Brokers[0].Connected })
	var all []time.Duration
	for n := range 20 {
		enginetest.Report(t, a, n, bulkhead.Sighting, 1)
		begun := time.Now()
		enginetest.Eventually(t, time.Minute, "known to the peer", func() bool {
			return enginetest.Check(t, b,
				n).Sightings == 1
		})
		all = append(all, time.Since(begun))
	}
	slices.Sort(all)
	t.Logf("visible after %v in the middle, %v at most", all[len(all)/2], all[len(all)-1])
	if all[0] > 2*time.Second {
		t.Errorf("never visible in less than %v", all[0])
	}
}
