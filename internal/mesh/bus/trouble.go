package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Problems of a NATS server run by another operator: values of [Status].Trouble, and of a
// metric's label.
const (
	TroubleJetStream  = "jetstream"  // it has none
	TroubleStorage    = "storage"    // no room for the streams
	TroubleReplicas   = "replicas"   // too few servers for the configured copies
	TroublePermission = "permission" // a permission that the node needs is denied
	TroubleSlow       = "slow"       // answers are slow or missing
	TroubleStreams    = "streams"    // it neither has nor makes the streams, for another reason
)

// Denied reports whether the server denies a permission that the node needs.
func (s *Status) Denied() bool { return s.Trouble == TroublePermission }

const (
	SlowBroker = 2 * time.Second // for one answer
	ProbeBeats = 2               // heartbeats between two probes of the server
)

// JetStream error codes that the library does not name.
const (
	CodeNoPeers       = 10005
	CodeNoResources   = 10023
	codeMemory        = 10028
	CodeStorage       = 10047
	CodeNoReplicas    = 10074
	codeMaximumStored = 10122 // of an account
)

// TroubleOf returns the problem of a server, or "" for none. err and took are the error and
// duration of its last answer, and denied is its latest denial.
func TroubleOf(err error, took time.Duration, denied string) string {
	var api *jetstream.APIError
	switch {
	case denied != "" || errors.Is(err, nats.ErrPermissionViolation):
		return TroublePermission
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount),
		errors.Is(err, nats.ErrNoResponders):
		return TroubleJetStream
	case errors.As(err, &api) &&
		slices.Contains([]jetstream.ErrorCode{CodeNoResources, codeMemory, CodeStorage, codeMaximumStored}, api.ErrorCode):
		return TroubleStorage
	case errors.As(err, &api) && slices.Contains([]jetstream.ErrorCode{CodeNoPeers, CodeNoReplicas}, api.ErrorCode):
		return TroubleReplicas
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout), took >= SlowBroker:
		return TroubleSlow
	case err != nil:
		return TroubleStreams
	}
	return ""
}

// describe returns a line for a problem of the server, and its remedy.
func (b *Client) describe(trouble, denied string, took time.Duration) (what, hint string) {
	switch trouble {
	case TroubleStreams:
		return "NATS server does not give this node the streams", "mend at the servers what err names; " +
			"until then nodes that were away ask their peers for everything that they missed"
	case TroubleJetStream:
		return "NATS server has no JetStream for this node", "set jetstream in its configuration; " +
			"until then nodes that were away ask their peers for everything that they missed"
	case TroubleStorage:
		return fmt.Sprintf("NATS server has no room for the streams, %d bytes for deltas and %d times that for images",
			b.Opts.StreamBytes, imagesShare), "lower mesh.stream_bytes, or raise its max_file_store"
	case TroubleReplicas:
		return fmt.Sprintf("NATS server is in no cluster of %d servers with JetStream", b.Opts.Replicas),
			"lower mesh.stream_replicas, or start the other servers"
	case TroublePermission:
		if strings.Contains(denied, "STREAM.CREATE") {
			return "NATS server lacks a stream, and denies this node to make it: " + denied,
				"start the node that printed the users, which makes the streams"
		}
		return "NATS server denies this node: " + denied,
			"compare its permissions with the output of \"bulkhead network nats\""
	}
	return fmt.Sprintf("NATS server took %v to answer", took.Round(time.Millisecond)), "look at its load and its disk"
}

// deny records a server's denial.
func (b *Client) deny(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	_, b.denied, _ = strings.Cut(err.Error(), "Violation for ")
	b.deniedAt = time.Now()
}

// deniesSince returns what a server has denied since a time. A server reports a denied subscription
// only once for each connection. The caller holds the lock.
func (b *Client) deniesSince(t time.Time) string {
	if b.deniedAt.Before(t) && !strings.HasPrefix(b.denied, "Subscription") {
		return ""
	}
	return b.denied
}

// probe asks a server for its streams, makes them if needed, and records the outcome.
func (b *Client) probe(ctx context.Context, every time.Duration) {
	limited, cancel := context.WithTimeout(ctx, BrokerWait)
	defer cancel()
	begun := time.Now()
	_, err := b.Streams(limited)
	took := time.Since(begun)
	if ctx.Err() != nil || !b.Conn.IsConnected() {
		return // a disconnected server is reported elsewhere
	}
	b.mu.Lock()
	denied := b.deniesSince(begun.Add(-2 * every))
	before := b.trouble
	b.trouble, b.answered = TroubleOf(err, took, denied), took
	now := b.trouble
	b.mu.Unlock()
	switch {
	case now == before:
	case now == "":
		b.Opts.Log.Info("NATS server has no more trouble", "server", b.Server)
	default:
		what, hint := b.describe(now, denied, took)
		b.Opts.Log.Error(what, "server", b.Server, "trouble", now, "err", err, "hint", hint)
	}
}

// Watch records why no server admits the node, and probes a server of another operator now and then, until ctx
// ends.
func (b *Client) Watch(ctx context.Context) {
	b.watchEntry(ctx)
	var entries sync.WaitGroup
	entries.Go(func() { b.watchEntries(ctx) })
	defer entries.Wait()
	if !b.foreign {
		return
	}
	every := ProbeBeats * b.Opts.Heartbeat
	for {
		b.probe(ctx, every)
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
	}
}
