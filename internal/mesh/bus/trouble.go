package bus

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

// Problems of a NATS server run by another operator: values of [Status].Trouble, and of a
// metric's label.
const (
	TroubleJetStream  = "jetstream"  // it has none
	TroubleStorage    = "storage"    // no room for the streams
	TroubleReplicas   = "replicas"   // too few servers for the configured copies
	TroublePermission = "permission" // a permission that the node needs is denied
	TroubleSlow       = "slow"       // answers are slow or missing
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
	}
	return ""
}

// remedy describes a problem and its remedy in one line.
func (b *Client) remedy(trouble, denied string, took time.Duration) string {
	switch trouble {
	case TroubleJetStream:
		return "it has no JetStream for this node: set jetstream in its configuration; " +
			"until then nodes that were away ask their peers for all that they missed"
	case TroubleStorage:
		return fmt.Sprintf(
			"it has no room for the streams, %d bytes for deltas and %d times that for images: "+
				"lower mesh.stream_bytes, or raise its max_file_store",
			b.Opts.StreamBytes, imagesShare)
	case TroubleReplicas:
		return fmt.Sprintf(
			"it is no cluster of %d servers with JetStream: lower mesh.stream_replicas, or start the others", b.Opts.Replicas)
	case TroublePermission:
		return fmt.Sprintf("it denies this node: %s; compare its permissions with what \"bulkhead network nats\" prints",
			denied)
	}
	return fmt.Sprintf("it took %v to answer", took.Round(time.Millisecond))
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
		b.Opts.Log.Info("the NATS server is well again", "server", b.Server)
	default:
		b.Opts.Log.Error("ALERT: NATS server: "+b.remedy(now, denied, took), "server", b.Server, "trouble", now, "err", err)
	}
}

// Watch records why no server has admitted the node yet, and probes a server of another operator now
// and then, until ctx ends.
func (b *Client) Watch(ctx context.Context) {
	b.watchEntry(ctx)
	if !b.foreign {
		return
	}
	every := ProbeBeats * b.Opts.Heartbeat
	for {
		pause := every
		if b.Conn.IsConnected() {
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
