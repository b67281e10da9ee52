// Package stream keeps a node's journal in a stream of JetStream: the second implementation of [store.Journal].
// docs/specs/journal.md has the format of its messages.
//
// The stream decides who appends. Each message states the last sequence of the stream that its writer knows, and the
// servers refuse any other: a writer that was replaced, and does not know it, appends nothing. An entry is
// acknowledged once the servers have acknowledged its last message. The stream refuses messages when it is full; it
// never drops one by itself.
//
// A message is encrypted and authenticated with a key of the node. A stranger who may publish to the stream can stop
// the node, but neither read the entries nor add one.
package stream

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/natsdial"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// Options are the settings of a journal.
type Options struct {
	// Servers are the URLs of NATS servers with JetStream. Credentials is a file with a user JWT and its key, and CA a
	// PEM file of the authorities for the certificates of the servers; both may be "".
	Servers         []string
	Credentials, CA string
	// Name is the name of the stream. The stream is made by the first [Journal.Join] that begins.
	Name string
	// Replicas is the number of servers that keep the new stream; 0 means three of a cluster, and one without a cluster.
	Replicas int
	// MaxBytes is the size at which the new stream refuses entries, and Keep the size up to which entries stay that a
	// checkpoint covers, both in bytes.
	MaxBytes, Keep int64
	// Key is a secret of the node. All nodes that share the journal have it.
	Key [32]byte
	// Wait is the longest time of a small request to the servers; 0 means 2 s.
	Wait time.Duration
	Log  *slog.Logger // nil discards
}

// A Journal is a journal in a stream. It implements [store.Shared]. One goroutine at a time calls Join or Append; the
// other methods may be called concurrently.
type Journal struct {
	o       Options
	conn    *nats.Conn
	js      jetstream.JetStream
	sealer  sealer
	writer  uint64 // random number of this Journal
	subject string
	largest int // bytes of an entry in one message; 0: as the servers allow

	mu       sync.Mutex
	stream   jetstream.Stream // nil before the first Join
	at       store.Position   // after the last entry
	first    uint64           // index of the first entry
	seq      uint64           // of the last message
	begun    bool             // this writer has appended
	replicas int
	bytes    uint64 // size of the stream, as far as is known
	problem  error  // why nothing is accepted until Join has succeeded

	connected context.Context // done once the present connection is lost
	lost      func()          // makes it done
}

var _ store.Shared = (*Journal)(nil)

// errNotJoined means that Join has not succeeded yet.
var errNotJoined = errors.New("the stream of the journal does not exist, or was not reached yet")

// Open returns a journal. It connects in the background, and again whenever the connection is lost. The error is about
// the options.
func Open(o Options) (*Journal, error) {
	if o.Wait == 0 {
		o.Wait = 2 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s, err := newSealer(o.Key)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	var random [8]byte
	rand.Read(random[:])
	j := &Journal{o: o, sealer: s, writer: binary.LittleEndian.Uint64(random[:]), subject: "bulkhead.journal." + o.Name,
		problem: errNotJoined}
	j.connected, j.lost = context.WithCancel(context.Background())
	j.conn, err = natsdial.Connect(natsdial.Options{Servers: o.Servers, Name: "bulkhead journal",
		Access: natsdial.Access{Credentials: o.Credentials, CA: o.CA}, Wait: o.Wait, Retry: 500 * time.Millisecond,
		Ping: o.Wait, Pings: 2,
		Further: []nats.Option{nats.DisconnectErrHandler(func(*nats.Conn, error) { j.cut() })}})
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if j.js, err = jetstream.New(j.conn, jetstream.WithDefaultTimeout(o.Wait)); err != nil {
		j.conn.Close()
		return nil, fmt.Errorf("journal: %w", err)
	}
	return j, nil
}

// cut ends the requests that wait for an answer over a connection that was lost.
func (j *Journal) cut() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lost()
	j.connected, j.lost = context.WithCancel(context.Background())
}

// request returns the context of a request with some bytes, which ends with the connection.
func (j *Journal) request(ctx context.Context, bytes int) (context.Context, func()) {
	j.mu.Lock()
	connected := j.connected
	j.mu.Unlock()
	const rate = 256 << 10 // bytes a second, over the slowest connection
	ctx, cancel := context.WithTimeout(ctx, j.o.Wait+time.Duration(bytes/rate)*time.Second)
	stop := context.AfterFunc(connected, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// Close implements [store.Journal].
func (j *Journal) Close() error {
	j.conn.Close()
	return nil
}

// Err implements [store.Journal].
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.problem
}

// LastIndex implements [store.Journal]. It is 0 before the first Join.
func (j *Journal) LastIndex() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.at.Index
}

// FirstIndex implements [store.Journal].
func (j *Journal) FirstIndex() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return min(j.first, j.at.Index+1)
}

// A State describes a journal.
type State struct {
	// Server is the URL of the server that the node is connected to; "" if it is to none.
	Server      string
	First, Last uint64 // indexes of the entries in the stream
	Replicas    int    // servers that keep it; 0 if that is not known
	// Bytes is the size of the stream as this node knows it, and MaxBytes the size at which it refuses entries.
	Bytes, MaxBytes uint64
	Problem         error // why nothing is accepted, or nil
}

// State returns the present state.
func (j *Journal) State() State {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := State{First: min(j.first, j.at.Index+1), Last: j.at.Index, Replicas: j.replicas, Bytes: j.bytes,
		MaxBytes: uint64(j.o.MaxBytes), Problem: j.problem}
	if j.conn.IsConnected() {
		s.Server = j.conn.ConnectedUrlRedacted()
	} else if s.Problem == nil {
		s.Problem = errAway
	}
	return s
}

var errAway = errors.New("no server of the journal's stream is connected")

// failed notes that nothing is accepted until Join has succeeded, and returns the error with the name of the stream.
func (j *Journal) failed(err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err = natsdial.Why(j.conn, err); !j.conn.IsConnected() {
		err = fmt.Errorf("%w: %w", errAway, err)
	}
	j.problem = fmt.Errorf("journal: stream %s: %w", j.o.Name, err)
	return j.problem
}

// open finds the stream, and makes it if it does not exist and begin is set. The stream is nil if it does not exist.
func (j *Journal) open(ctx context.Context, begin bool) (jetstream.Stream, *jetstream.StreamInfo, error) {
	s, err := j.js.Stream(ctx, j.o.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if !begin {
			return nil, nil, nil
		}
		s, err = j.create(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	info := s.CachedInfo()
	if err := j.fits(&info.Config); err != nil {
		return nil, nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stream, j.replicas, j.bytes = s, info.Config.Replicas, info.State.Bytes
	return s, info, nil
}

// described begins the description of a stream, before the identity of the node's key. Servers before 2.10 keep no
// metadata.
const described = "journal of a bulkhead node with the key "

// errSingle is the code of the servers' error for replicas without a cluster.
const errSingle = 10074

// create makes the stream.
func (j *Journal) create(ctx context.Context) (jetstream.Stream, error) {
	c := jetstream.StreamConfig{Name: j.o.Name, Description: described + j.sealer.owner,
		Subjects:  []string{j.subject},
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, MaxBytes: j.o.MaxBytes, MaxMsgs: -1,
		MaxConsumers: -1, Storage: jetstream.FileStorage, Replicas: j.o.Replicas}
	if c.Replicas == 0 {
		c.Replicas = 3
	}
	s, err := j.js.CreateStream(ctx, c)
	var api *jetstream.APIError
	if j.o.Replicas == 0 && errors.As(err, &api) && api.ErrorCode == errSingle {
		c.Replicas = 1
		s, err = j.js.CreateStream(ctx, c)
	}
	if err != nil {
		return nil, fmt.Errorf("make it with %d replicas: %w", c.Replicas, err)
	}
	j.o.Log.Info("a stream was made for the journal", "stream", c.Name, "replicas", c.Replicas, "max_bytes", c.MaxBytes)
	return s, nil
}

// fits refuses a stream of another node, and one that loses entries by itself.
func (j *Journal) fits(c *jetstream.StreamConfig) error {
	switch {
	case c.Description != described+j.sealer.owner:
		return fmt.Errorf("%w: the stream is of another node or program, or of this node before it lost its seal.key: "+
			"name another one, or put the keys back from a backup", bulkhead.ErrForbidden)
	case len(c.Subjects) != 1 || c.Subjects[0] != j.subject:
		return fmt.Errorf("%w: the stream has the subjects %.200q, want %q", bulkhead.ErrMalformed, c.Subjects, j.subject)
	case c.Retention != jetstream.LimitsPolicy || c.Discard != jetstream.DiscardNew || c.MaxAge != 0 || c.MaxMsgs > 0 ||
		c.MaxMsgsPerSubject > 0 || c.Storage != jetstream.FileStorage:
		return fmt.Errorf("%w: the stream was changed so that it drops entries by itself: want limits as retention, "+
			"discard new, no largest age or number of messages, and storage in files", bulkhead.ErrMalformed)
	}
	return nil
}
