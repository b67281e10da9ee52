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

// What may be wrong with a NATS server that somebody else runs: values of
// [BusStatus].Trouble, and of a metric's label.
const (
	troubleJetStream  = "jetstream"  // there is none
	troubleStorage    = "storage"    // no room for the streams
	troubleReplicas   = "replicas"   // not enough servers for the copies that are wanted
	troublePermission = "permission" // something that the node needs is denied
	troubleSlow       = "slow"       // it takes long to answer, or does not
)

// Denied reports whether the server denies something that the node needs.
func (s *BusStatus) Denied() bool { return s.Trouble == troublePermission }

const (
	slowBroker = 2 * time.Second // for one answer
	probeBeats = 2               // heartbeats between two questions how the server is
)

// Error codes of JetStream that the library does not name.
const (
	codeNoPeers       = 10005
	codeNoResources   = 10023
	codeMemory        = 10028
	codeStorage       = 10047
	codeNoReplicas    = 10074
	codeMaximumStored = 10122 // of an account
)

// troubleOf returns what is wrong with a server that has answered, or not, with an error
// after a while; denied is what it said to have denied lately. "" is nothing.
func troubleOf(err error, took time.Duration, denied string) string {
	var api *jetstream.APIError
	switch {
	case denied != "" || errors.Is(err, nats.ErrPermissionViolation):
		return troublePermission
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount),
		errors.Is(err, nats.ErrNoResponders):
		return troubleJetStream
	case errors.As(err, &api) && slices.Contains([]jetstream.ErrorCode{codeNoResources, codeMemory, codeStorage,
		codeMaximumStored}, api.ErrorCode):
		return troubleStorage
	case errors.As(err, &api) && slices.Contains([]jetstream.ErrorCode{codeNoPeers, codeNoReplicas}, api.ErrorCode):
		return troubleReplicas
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout), took >= slowBroker:
		return troubleSlow
	}
	return ""
}

// remedy says in one line what is wrong and what to do.
func (b *natsBus) remedy(trouble, denied string, took time.Duration) string {
	switch trouble {
	case troubleJetStream:
		return "it has no JetStream for this node: set jetstream in its configuration; until then nodes that were away ask their peers for all that they missed"
	case troubleStorage:
		return fmt.Sprintf(
			"it has no room for the streams, %d bytes for deltas and %d times that for images: lower mesh.stream_bytes, or raise its max_file_store", b.opts.StreamBytes, imagesShare)
	case troubleReplicas:
		return fmt.Sprintf(
			"it is no cluster of %d servers with JetStream: lower mesh.stream_replicas, or start the others", b.opts.Replicas)
	case troublePermission:
		return fmt.Sprintf("it denies this node: %s; compare its permissions with what \"bulkhead network nats\" prints",
			denied)
	}
	return fmt.Sprintf("it took %v to answer", took.Round(time.Millisecond))
}

// deny notes what a server said to have denied.
func (b *natsBus) deny(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	_, b.denied, _ = strings.Cut(err.Error(), "Violation for ")
	b.deniedAt = time.Now()
}

// deniesSince returns what a server has denied since a time. That a subscription is denied
// it says only once for each connection. The caller holds the lock.
func (b *natsBus) deniesSince(t time.Time) string {
	if b.deniedAt.Before(t) && !strings.HasPrefix(b.denied, "Subscription") {
		return ""
	}
	return b.denied
}

// probe asks a server for its streams, makes them if need be, and notes how that went.
func (b *natsBus) probe(ctx context.Context, every time.Duration) {
	limited, cancel := context.WithTimeout(ctx, brokerWait)
	defer cancel()
	begun := time.Now()
	_, err := b.streams(limited)
	took := time.Since(begun)
	if ctx.Err() != nil || !b.conn.IsConnected() {
		return // it does not answer because it is away, and that is told elsewhere
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

// watchBroker asks now and then how a server is that somebody else runs.
func (m *Mesh) watchBroker(ctx context.Context, b *natsBus) {
	every := probeBeats * m.opts.Heartbeat
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
