// Package lease holds a lease in a key-value bucket of JetStream: at most one node of a pair has it at a
// time. The servers of the bucket are the witness of the pair. They may be one server on a third machine,
// or a cluster.
//
// The holder writes the record of the lease again and again, each time over the revision that it knows. It
// counts the time of the lease from the moment before it wrote. The other node counts it from the moment
// at which it read a revision, and longer. It then writes over that revision. So no clocks are compared:
// they only have to run equally fast, within a tenth.
package lease

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/natsdial"
)

// Bucket is the bucket of the leases of all pairs.
const Bucket = "bulkhead-standby"

// Options are the settings of a lease.
type Options struct {
	// Servers are the URLs of the witness. Credentials is a file with a user JWT and its key, and CA a PEM
	// file of the authorities for the certificates of the servers; both may be "".
	Servers         []string
	Credentials, CA string
	// Own and Other are the public keys of the two nodes of the pair.
	Own, Other string
	// For is the time for which the lease holds after it was written.
	For time.Duration
	Log *slog.Logger
}

// A record is the value of a lease in the bucket.
type record struct {
	Holder string `json:"holder"` // public key of a node; "" for none
	Term   uint64 `json:"term"`   // in which the holder decides
	// Behind: the holder may have acknowledged what the other node lacks.
	Behind bool `json:"behind"`
}

// maxRecord is the longest value that is read, in bytes.
const maxRecord = 4096

// parse reads the value of a lease.
func parse(value []byte) (r record, err error) {
	if len(value) > maxRecord || json.Unmarshal(value, &r) != nil {
		return record{}, fmt.Errorf("standby: %w: the value of a lease, %d bytes", bulkhead.ErrMalformed, len(value))
	}
	return r, nil
}

// A Lease is a node's view of the lease of its pair. Its methods may be called concurrently.
type Lease struct {
	o    Options
	key  string
	conn *nats.Conn
	js   jetstream.JetStream

	exchange sync.Mutex // held during a request to the servers
	bucket   jetstream.KeyValue

	mu       sync.Mutex
	seen     record
	revision uint64    // of seen; 0: unknown, or there is no record
	since    time.Time // when revision was first seen
	wants    bool      // this node wants to hold the lease
	term     uint64    // in which it does
	behind   bool      // what it wants to write
	declared bool      // the record is this node's, with Behind
	// written is the begin of the latest request that wrote the record for this node; zero if it is not the holder.
	written time.Time
	problem error
}

// Open returns the lease of a pair. It connects in the background, and again whenever the connection is
// lost. The error is about the options.
func Open(o Options) (*Lease, error) {
	pair := min(o.Own, o.Other) + " " + max(o.Own, o.Other)
	name := sha256.Sum256([]byte("bulkhead lease " + pair))
	l := &Lease{o: o, key: hex.EncodeToString(name[:16])}
	conn, err := natsdial.Connect(natsdial.Options{Servers: o.Servers, Name: "bulkhead standby",
		Access: natsdial.Access{Credentials: o.Credentials, CA: o.CA}, Wait: o.For, Retry: o.For / 8, Ping: o.For, Pings: 2})
	if err != nil {
		return nil, fmt.Errorf("standby: witness: %w", err)
	}
	l.conn = conn
	if l.js, err = jetstream.New(conn); err != nil {
		conn.Close()
		return nil, fmt.Errorf("standby: witness: %w", err)
	}
	return l, nil
}

// Parts of the time of a lease: a holder writes the record that often, and the other node reads it. The sooner that
// node has seen the last write, the sooner it takes over.
const (
	writes = 4
	// Looks is also how often a node that may take over should ask [Lease.Free].
	Looks = 16
)

// Run renews the lease of a holder, and looks at the lease of the other node, until ctx ends. It closes the
// lease then.
func (l *Lease) Run(ctx context.Context) {
	defer l.conn.Close()
	for {
		began := time.Now()
		l.renew(ctx)
		every := l.o.For / Looks
		if l.Valid() {
			every = l.o.For / writes
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(every - time.Since(began)):
		}
	}
}

// renew makes one exchange with the witness, and logs a change of what it ends with.
func (l *Lease) renew(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, l.o.For/2)
	defer cancel()
	before := l.Problem()
	err := l.once(ctx)
	switch {
	case err != nil && before == nil:
		l.o.Log.Warn("the witness of the pair does not answer", "err", err,
			"consequence", "votes are taken only as the second node confirms them; no node takes over by itself",
			"hint", "look at the servers of [standby] witness, and at the network between")
	case err == nil && before != nil:
		l.o.Log.Info("the witness of the pair answers again")
	}
}

// Problem returns why the last exchange with the witness failed, or nil.
func (l *Lease) Problem() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.problem
}

// once makes one exchange: it writes the record if this node may hold the lease, or else reads it.
func (l *Lease) once(ctx context.Context) (err error) {
	l.exchange.Lock()
	defer l.exchange.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		err = natsdial.Why(l.conn, err)
		l.problem = err
		if err != nil {
			l.bucket = nil // it may have been deleted: the next exchange opens it, or makes it again
		}
	}()
	if err := l.open(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	known := l.wants && l.revision != 0 && l.seen.Holder == l.o.Own
	l.mu.Unlock()
	if !known {
		if err := l.read(ctx); err != nil {
			return err
		}
	}
	l.mu.Lock()
	next, revision := record{l.o.Own, l.term, l.behind}, l.revision
	mine := revision == 0 || l.seen.Holder == "" || l.seen.Holder == l.o.Own || l.seen.Term <= l.term && l.expired()
	write := l.wants && mine
	l.mu.Unlock()
	if !write {
		return nil
	}
	return l.write(ctx, next, revision)
}

// open opens the bucket, and makes it if it does not exist.
func (l *Lease) open(ctx context.Context) (err error) {
	if l.bucket != nil {
		return nil
	}
	l.bucket, err = l.js.KeyValue(ctx, Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		replicas := 1
		if len(l.o.Servers) >= 3 {
			replicas = 3
		}
		l.bucket, err = l.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: Bucket, History: 1, Replicas: replicas,
			MaxValueSize: maxRecord, Description: "leases of pairs of bulkhead nodes"})
		if errors.Is(err, jetstream.ErrBucketExists) { // the other node was faster
			l.bucket, err = l.js.KeyValue(ctx, Bucket)
		}
	}
	if err != nil {
		l.bucket = nil
	}
	return err
}

// read reads the record. The caller holds exchange.
func (l *Lease) read(ctx context.Context) error {
	entry, err := l.bucket.Get(ctx, l.key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		l.note(record{}, 0)
		return nil
	}
	if err != nil {
		return err
	}
	r, err := parse(entry.Value())
	if err != nil {
		return err
	}
	l.note(r, entry.Revision())
	return nil
}

// note notes a record that was read.
func (l *Lease) note(r record, revision uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if revision != l.revision {
		l.seen, l.revision, l.since = r, revision, time.Now()
	}
	if r.Holder != l.o.Own {
		l.written, l.declared = time.Time{}, false
	}
}

// write writes a record over a revision. The caller holds exchange.
func (l *Lease) write(ctx context.Context, r record, revision uint64) error {
	value, err := json.Marshal(r)
	if err != nil {
		return err
	}
	own := r.Holder == l.o.Own
	l.mu.Lock()
	// While the request is under way, the record may say either.
	l.declared = l.declared && own && r.Behind
	l.mu.Unlock()
	began := time.Now()
	if revision == 0 {
		revision, err = l.bucket.Create(ctx, l.key, value)
	} else {
		revision, err = l.bucket.Update(ctx, l.key, value, revision)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		// The record may have been written by the other node, or by this one without an answer.
		l.revision = 0
		return err
	}
	l.seen, l.revision, l.since = r, revision, began
	l.written, l.declared = time.Time{}, false
	if own {
		l.written, l.declared = began, r.Behind
	}
	return nil
}

// expired reports whether the record of another holder has lasted beyond its time. The caller holds mu.
func (l *Lease) expired() bool { return l.revision != 0 && time.Since(l.since) > l.beyond() }

// beyond is for how long the other node waits, by its clock.
func (l *Lease) beyond() time.Duration { return l.o.For + l.o.For/5 }

// Hold makes this node want the lease, for a term. It gets the lease if no node holds it, or once the time of
// a holder of no later term is over.
func (l *Lease) Hold(term uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Until the other node has caught up, it may lack what was acknowledged before this node's start.
	l.wants, l.term, l.behind = true, term, true
}

// Valid reports whether this node holds the lease, and its time is not over by either clock of the machine.
func (l *Lease) Valid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.valid()
}

func (l *Lease) valid() bool { return l.wants && !l.written.IsZero() && Elapsed(l.written) < l.o.For }

// Elapsed returns the time since t, by the clock of the machine that has gone further. A machine that was
// suspended may have stopped one of them.
func Elapsed(t time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)))
}

// ErrNotHeld means that this node does not hold the lease.
var ErrNotHeld = fmt.Errorf("%w: this node does not hold the lease of its pair", bulkhead.ErrReadOnly)

// Renew returns nil if the lease is valid, if need be after an exchange with the witness. It returns
// [ErrNotHeld] or an error of the witness otherwise.
func (l *Lease) Renew(ctx context.Context) error { return l.await(ctx, l.valid) }

// SetBehind returns nil once the record is this node's and shows that the other node may lack what this one
// acknowledges from now on: the other node does not take over by itself then.
func (l *Lease) SetBehind(ctx context.Context) error {
	l.mu.Lock()
	l.behind = true
	l.mu.Unlock()
	return l.await(ctx, func() bool { return l.declared && l.valid() })
}

// await makes an exchange with the witness unless the condition holds, and returns nil if it holds then.
func (l *Lease) await(ctx context.Context, condition func() bool) error {
	holds := func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return condition()
	}
	if holds() {
		return nil
	}
	if err := l.once(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrNotHeld, err)
	}
	if !holds() {
		return ErrNotHeld
	}
	return nil
}

// ClearBehind notes that the other node has everything. The next exchange writes it.
func (l *Lease) ClearBehind() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.behind = false
}

// Release gives the lease up, so that the other node need not wait until its time is over.
func (l *Lease) Release(ctx context.Context) error {
	l.exchange.Lock()
	defer l.exchange.Unlock()
	l.mu.Lock()
	held, revision, term := !l.written.IsZero(), l.revision, l.term
	l.wants, l.written, l.declared = false, time.Time{}, false
	l.mu.Unlock()
	if !held {
		return nil
	}
	if err := l.open(ctx); err != nil {
		return err
	}
	return l.write(ctx, record{Term: term}, revision)
}

// Free reports whether this node may take over by itself from the other one, which decides in a term: the time
// of the other node's lease is over, and the other node acknowledged nothing that this node lacks. If an
// earlier take-over got the lease and was not finished, this node may finish it, whether the first entry of its term
// is in the journal or not.
func (l *Lease) Free(term uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen.Holder == l.o.Own {
		return !l.wants && (l.seen.Term == term || l.seen.Term == term+1)
	}
	return l.seen.Holder == l.o.Other && l.seen.Term == term && !l.seen.Behind && l.expired()
}

// Pause keeps this node from renewing its lease, after a take-over that was not finished. See [Lease.Free].
func (l *Lease) Pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wants, l.written, l.declared = false, time.Time{}, false
}

// Holder describes who holds the lease, as far as this node knows: "this" node, the "other" one, "none", or
// "unknown".
func (l *Lease) Holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.valid():
		return "this"
	case l.revision == 0:
		return "unknown"
	case l.seen.Holder == l.o.Other && !l.expired():
		return "other"
	}
	return "none"
}

// Behind reports whether the record shows that the holder may have acknowledged what the other node lacks, as
// far as this node knows. It is true while there is no record.
func (l *Lease) Behind() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.revision == 0 || l.seen.Behind
}

// Take makes this node the holder, for a term. It waits until the lease of the other node is over, for
// as long as ctx lasts.
func (l *Lease) Take(ctx context.Context, term uint64) error {
	l.Hold(term)
	for {
		err := l.Renew(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			l.mu.Lock()
			defer l.mu.Unlock()
			l.wants = false
			return fmt.Errorf("standby: the lease of the pair cannot be had: %w", err)
		case <-time.After(l.o.For / 8):
		}
	}
}
