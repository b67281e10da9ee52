package mesh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Problems of a NATS server run by another operator: values of [BusStatus].Trouble, and of a
// metric's label.
const (
	troubleJetStream  = "jetstream"  // it has none
	troubleStorage    = "storage"    // no room for the streams
	troubleReplicas   = "replicas"   // too few servers for the configured copies
	troublePermission = "permission" // a permission that the node needs is denied
	troubleSlow       = "slow"       // answers are slow or missing
)

// Denied reports whether the server denies a permission that the node needs.
func (s *BusStatus) Denied() bool { return s.Trouble == troublePermission }

const (
	slowBroker = 2 * time.Second // for one answer
	probeBeats = 2               // heartbeats between two probes of the server
)

// JetStream error codes that the library does not name.
const (
	codeNoPeers       = 10005
	codeNoResources   = 10023
	codeMemory        = 10028
	codeStorage       = 10047
	codeNoReplicas    = 10074
	codeMaximumStored = 10122 // of an account
)

// troubleOf returns the problem of a server, or "" for none. err and took are the error and
// duration of its last answer, and denied is its latest denial.
func troubleOf(err error, took time.Duration, denied string) string {
	var api *jetstream.APIError
	switch {
	case denied != "" || errors.Is(err, nats.ErrPermissionViolation):
		return troublePermission
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount),
		errors.Is(err, nats.ErrNoResponders):
		return troubleJetStream
	case errors.As(err, &api) &&
		slices.Contains([]jetstream.ErrorCode{codeNoResources, codeMemory, codeStorage, codeMaximumStored}, api.ErrorCode):
		return troubleStorage
	case errors.As(err, &api) && slices.Contains([]jetstream.ErrorCode{codeNoPeers, codeNoReplicas}, api.ErrorCode):
		return troubleReplicas
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout), took >= slowBroker:
		return troubleSlow
	}
	return ""
}

// remedy describes a problem and its remedy in one line.
func (b *natsBus) remedy(trouble, denied string, took time.Duration) string {
	switch trouble {
	case troubleJetStream:
		return "it has no JetStream for this node: set jetstream in its configuration; until then nodes that were away ask their peers for all that they missed"
	case troubleStorage:
		return fmt.Sprintf(
			"it has no room for the streams, %d bytes for deltas and %d times that for images: lower mesh.stream_bytes, or raise its max_file_store",
			b.opts.StreamBytes, imagesShare)
	case troubleReplicas:
		return fmt.Sprintf(
			"it is no cluster of %d servers with JetStream: lower mesh.stream_replicas, or start the others", b.opts.Replicas)
	case troublePermission:
		return fmt.Sprintf("it denies this node: %s; compare its permissions with what \"bulkhead network nats\" prints",
			denied)
	}
	return fmt.Sprintf("it took %v to answer", took.Round(time.Millisecond))
}

// deny records a server's denial.
func (b *natsBus) deny(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	_, b.denied, _ = strings.Cut(err.Error(), "Violation for ")
	b.deniedAt = time.Now()
}

// deniesSince returns what a server has denied since a time. A server reports a denied subscription
// only once for each connection. The caller holds the lock.
func (b *natsBus) deniesSince(t time.Time) string {
	if b.deniedAt.Before(t) && !strings.HasPrefix(b.denied, "Subscription") {
		return ""
	}
	return b.denied
}

// probe asks a server for its streams, makes them if needed, and records the outcome.
func (b *natsBus) probe(ctx context.Context, every time.Duration) {
	limited, cancel := context.WithTimeout(ctx, brokerWait)
	defer cancel()
	begun := time.Now()
	_, err := b.streams(limited)
	took := time.Since(begun)
	if ctx.Err() != nil || !b.conn.IsConnected() {
		return // a disconnected server is reported elsewhere
	}
	b.mu.Lock()
	denied := b.deniesSince(begun.Add(-2 * every))
	before := b.trouble
	b.trouble, b.answered = troubleOf(err, took, denied), took
	now := b.trouble
	b.mu.Unlock()
	switch {
	case now == before:
	case now == "":
		b.opts.Log.Info("the NATS server is well again", "server", b.server)
	default:
		b.opts.Log.Error("ALERT: NATS server: "+b.remedy(now, denied, took), "server", b.server, "trouble", now, "err", err)
	}
}

// watch records why no server has admitted the node yet, and probes a server of another operator now
// and then, until ctx ends.
func (b *natsBus) watch(ctx context.Context) {
	b.watchEntry(ctx)
	if !b.foreign {
		return
	}
	every := probeBeats * b.opts.Heartbeat
	for {
		pause := every
		if b.conn.IsConnected() {
			b.probe(ctx, every)
		} else {
			pause = min(pause, reconnect)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}
