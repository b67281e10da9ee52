// Package bucket keeps the map of a site in a key-value bucket of JetStream, with the maps before it. Each change is
// written over the revision that its writer has read, so no writer undoes the change of another one.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bulkhead-mail/bulkhead/internal/natsdial"
	"github.com/bulkhead-mail/bulkhead/internal/shard"
)

// Name is the name of the bucket, which holds the maps of any number of sites.
const Name = "bulkhead-shards"

// history is the number of maps that the bucket keeps of each site. It is the largest that JetStream allows.
const history = 64

// Errors of a bucket.
var (
	// ErrNone means that the bucket has no map of the site.
	ErrNone = errors.New("shard: the bucket has no map of the site")
	// ErrChanged means that the map has changed since it was read, so that nothing was written.
	ErrChanged = errors.New("shard: the map was changed by another administrator in the meantime")
)

// Options are the settings of a bucket.
type Options struct {
	Servers []string // URLs
	Access  natsdial.Access
	Site    string        // whose map it is: 1 to 64 letters, digits, "-" and "_"
	Wait    time.Duration // for one attempt to connect
}

var siteName = regexp.MustCompile("^[A-Za-z0-9_-]{1,64}$")

// ValidSite reports whether text can be the name of a site.
func ValidSite(text string) bool { return siteName.MatchString(text) }

// A Bucket has the maps of one site. Its methods may be called concurrently.
type Bucket struct {
	o    Options
	conn *nats.Conn
	js   jetstream.JetStream
}

// Open returns the bucket of a site. It connects in the background, and again whenever the connection is lost. An error
// is about the options.
func Open(o Options) (*Bucket, error) {
	if !ValidSite(o.Site) {
		return nil, fmt.Errorf("shard: name of a site %.80q, want 1 to 64 letters, digits, \"-\" and \"_\"", o.Site)
	}
	conn, err := natsdial.Connect(natsdial.Options{Servers: o.Servers, Name: "bulkhead shards", Access: o.Access,
		Wait: o.Wait, Retry: time.Second, Ping: 10 * time.Second, Pings: 2})
	if err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	b := &Bucket{o: o, conn: conn}
	if b.js, err = jetstream.New(conn); err != nil {
		conn.Close()
		return nil, fmt.Errorf("shard: %w", err)
	}
	return b, nil
}

// Close ends the connection.
func (b *Bucket) Close() { b.conn.Close() }

// Get returns the map of the site and its revision in the bucket. It returns [ErrNone] if there is none, or an error of
// the servers, or why the map is invalid; then it returns the revision as well.
func (b *Bucket) Get(ctx context.Context) (m *shard.Map, revision uint64, err error) {
	kv, err := b.js.KeyValue(ctx, Name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, 0, ErrNone
	}
	if err != nil {
		return nil, 0, natsdial.Why(b.conn, err)
	}
	entry, err := kv.Get(ctx, b.o.Site)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, 0, ErrNone
	}
	if err != nil {
		return nil, 0, natsdial.Why(b.conn, err)
	}
	m, err = shard.Parse(entry.Value())
	return m, entry.Revision(), err
}

// Put writes a map over a revision; 0 means that there is no map yet. It returns [ErrChanged] if the bucket has another
// revision. After any other error, the map may have been written.
func (b *Bucket) Put(ctx context.Context, m *shard.Map, revision uint64) error {
	kv, err := b.js.KeyValue(ctx, Name)
	if errors.Is(err, jetstream.ErrBucketNotFound) && revision == 0 {
		kv, err = b.create(ctx)
	}
	if err != nil {
		return natsdial.Why(b.conn, err)
	}
	if revision == 0 {
		_, err = kv.Create(ctx, b.o.Site, m.Text())
	} else {
		_, err = kv.Update(ctx, b.o.Site, m.Text(), revision)
	}
	var api *jetstream.APIError
	behind := errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
	if behind || errors.Is(err, jetstream.ErrKeyExists) {
		return ErrChanged
	}
	return natsdial.Why(b.conn, err)
}

// create makes the bucket: with three replicas, if the servers are a cluster of three or more.
func (b *Bucket) create(ctx context.Context) (jetstream.KeyValue, error) {
	c := jetstream.KeyValueConfig{Bucket: Name, History: history, MaxValueSize: shard.MaxBytes, Replicas: 3,
		Description: "maps of sites that are divided among several bulkhead nodes"}
	kv, err := b.js.CreateKeyValue(ctx, c)
	if err != nil && !errors.Is(err, jetstream.ErrBucketExists) && ctx.Err() == nil {
		c.Replicas = 1
		kv, err = b.js.CreateKeyValue(ctx, c)
	}
	if errors.Is(err, jetstream.ErrBucketExists) { // another administrator was faster
		return b.js.KeyValue(ctx, Name)
	}
	return kv, err
}

// History returns the latest maps of the site, the oldest first. Those that are invalid are left out.
func (b *Bucket) History(ctx context.Context) (all []*shard.Map, err error) {
	kv, err := b.js.KeyValue(ctx, Name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, natsdial.Why(b.conn, err)
	}
	entries, err := kv.History(ctx, b.o.Site)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, natsdial.Why(b.conn, err)
	}
	for _, e := range entries {
		if m, err := shard.Parse(e.Value()); err == nil {
			all = append(all, m)
		}
	}
	return all, nil
}
