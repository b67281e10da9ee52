package logbook

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/boltfile"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
)

// Options are the settings of a [Book].
type Options struct {
	// MaxBytes limits the size of the file, in bytes, at least [MinBytes]. The oldest entries are
	// dropped to stay below it.
	MaxBytes int64
	// MaxAge is the age at which entries are dropped.
	MaxAge time.Duration
	// Key is the secret with which Message-IDs and the addresses of recipients are hashed.
	Key Key
	// Subjects makes the book store the Subject of messages.
	Subjects bool
	// Near is the number of bands of bulkhead/near that two messages of one [Wave] share at least; 0
	// means 2.
	Near int
	// Common holds signatures that unrelated messages share.
	Common []bulkhead.Signature
	// Every is the interval between writes; 0 means two seconds.
	Every time.Duration
	// Space returns the space of a reporter's messages, as in package recent; ok is false for a
	// reporter without the right to report. nil: all messages are in the node's own space.
	Space func(bulkhead.Reporter) (space string, ok bool)
	// Now returns the time; nil means time.Now.
	Now func() time.Time
	// Log receives reports of a damaged file and of lost entries; nil discards them.
	Log *slog.Logger
}

// MinBytes is the smallest allowed MaxBytes.
const MinBytes = 4 << 20

// Stats are the counters of a [Book].
type Stats struct {
	Written atomic.Int64 // entries on disk since the start
	Lost    atomic.Int64 // entries lost because the queue was full
	Failed  atomic.Int64 // entries lost because they could not be written
	Damaged atomic.Int64 // entries that were read and could not be decoded
	Aside   atomic.Int64 // files that were damaged and set aside
}

// A Book stores the entries of a node in one file. Its methods may be called concurrently.
type Book struct {
	Stats Stats

	o    Options
	path string
	seed maphash.Seed

	mu            sync.Mutex
	votes, checks queue

	writing sync.Mutex // held while a batch is written
	last    uint64     // largest ID
	tail    tail       // entries after the last block
	failing bool       // the last write failed, and the log says so
	retry   time.Time  // time of the next attempt to open the file

	opened sync.RWMutex
	db     *bbolt.DB // nil: no open file

	state  atomic.Pointer[State]
	waves  *waves
	early  atomic.Pointer[waves] // of the latest entries, shown until all are read; nil afterwards
	newest int                   // number of latest entries for early
}

// A tail counts the entries that are not in a block yet.
type tail struct{ rows, bytes int }

// State describes the contents of a book.
type State struct {
	Entries int64
	Bytes   int64     // bytes of the file in use
	Oldest  time.Time // time of the oldest entry; zero if there is none
}

// A note is an entry waiting to be written, with the data to complete it.
type note struct {
	Entry
	who       bulkhead.Reporter
	from      string // address
	messageID string
	to        []string // mailboxes of recipients
	sum       uint64   // hash of reporter, origin and signatures
}

// Buckets of the file, both by ID in eight bytes.
var (
	rowsBucket   = []byte("rows")
	blocksBucket = []byte("blocks")
)

const (
	pageSize = 16 << 10
	growth   = 1 << 20 // of the file, bytes
)

// errUnavailable is the error of a book whose file cannot be opened.
var errUnavailable = errors.New("logbook: the file cannot be opened at present; the log says why")

// Open opens the book in a file, which is created if necessary. A damaged file is renamed to path +
// ".damaged", and an empty one takes its place. If the file cannot be opened for another reason,
// Open still returns the book, which drops new entries and tries to open the file again every ten
// seconds. Errors are about Options alone.
func Open(path string, o Options) (*Book, error) {
	if o.MaxBytes < MinBytes || o.MaxAge <= 0 {
		return nil, fmt.Errorf("logbook: %d bytes for %v, want at least %d bytes and more than 0", o.MaxBytes,
			o.MaxAge, MinBytes)
	}
	if o.Every == 0 {
		o.Every = 2 * time.Second
	}
	if o.Near <= 0 {
		o.Near = 2
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Space == nil {
		o.Space = func(bulkhead.Reporter) (string, bool) { return "", true }
	}
	b := &Book{o: o, path: path, seed: maphash.MakeSeed(), waves: newWaves(&o), newest: newest}
	b.state.Store(&State{})
	b.writing.Lock()
	defer b.writing.Unlock()
	if err := b.open(); err != nil {
		o.Log.Error("file of the history cannot be opened", "path", path, "err", err,
			"consequence", "checks and votes are not recorded")
	}
	return b, nil
}

// open opens the file, or replaces a damaged file with an empty one. The caller holds writing.
func (b *Book) open() error {
	b.opened.Lock()
	defer b.opened.Unlock()
	err := b.openFile()
	if errors.Is(err, boltfile.ErrDamaged) {
		b.rename(err)
		err = b.openFile()
	}
	if err != nil {
		b.retry = b.o.Now().Add(10 * time.Second)
	}
	return err
}

func (b *Book) rename(why error) {
	b.Stats.Aside.Add(1)
	aside := b.path + ".damaged"
	err := os.Rename(b.path, aside)
	b.o.Log.Error("file of the history was damaged", "path", b.path, "why", why, "moved_to", aside, "err", err,
		"consequence", "the history begins anew")
}

func (b *Book) openFile() error {
	options := bbolt.Options{Timeout: time.Second, PageSize: pageSize, FreelistType: bbolt.FreelistMapType}
	if info, err := os.Stat(b.path); err == nil && info.Size() > b.o.MaxBytes+b.o.MaxBytes/8 {
		if err := b.compact(options); err != nil {
			return err
		}
	}
	var db *bbolt.DB
	err := boltfile.Guard(func() (err error) {
		if db, err = boltfile.Open(b.path, &options); err != nil {
			return err
		}
		db.AllocSize = growth
		if err := db.Update(makeBuckets); err != nil {
			return err
		}
		return db.View(b.measure)
	})
	if err != nil {
		if db != nil && !errors.Is(err, boltfile.ErrDamaged) {
			err = errors.Join(err, db.Close())
		}
		return err
	}
	b.db = db
	return nil
}

func makeBuckets(tx *bbolt.Tx) error {
	_, err1 := tx.CreateBucketIfNotExists(rowsBucket)
	_, err2 := tx.CreateBucketIfNotExists(blocksBucket)
	return errors.Join(err1, err2)
}

// compact shrinks a file that is larger than MaxBytes allows.
func (b *Book) compact(options bbolt.Options) error {
	small := b.path + ".new"
	if err := os.RemoveAll(small); err != nil {
		return err
	}
	err := boltfile.Guard(func() error {
		from, err := boltfile.Open(b.path, &options)
		if err != nil {
			return err
		}
		defer from.Close()
		if err := from.Update(func(tx *bbolt.Tx) error {
			if err := makeBuckets(tx); err != nil {
				return err
			}
			_, err := dropOldest(tx, used(tx)-b.room())
			return err
		}); err != nil {
			return err
		}
		to, err := bbolt.Open(small, 0o600, &options)
		if err != nil {
			return err
		}
		return errors.Join(bbolt.Compact(to, from, 1<<20), to.Close())
	})
	if err != nil {
		return err
	}
	return os.Rename(small, b.path)
}

// room is the number of bytes that may be in use before the next batch. Space that one batch frees
// is available only to the batch after it.
func (b *Book) room() int64 { return b.o.MaxBytes - b.o.MaxBytes/4 }

// measure reads the state of the book from its file.
func (b *Book) measure(tx *bbolt.Tx) error {
	rows, blocks := tx.Bucket(rowsBucket), tx.Bucket(blocksBucket)
	var sealed uint64
	state := &State{Bytes: used(tx)}
	last, _ := rows.Cursor().Last()
	b.last = idOf(last)
	first, _ := rows.Cursor().First()
	state.Oldest = timeOf(idOf(first))
	c := blocks.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		block, err := readBlock(k, v)
		if err != nil {
			return err
		}
		sealed = block.last
		n := block.rows
		if block.first < idOf(first) { // some of its entries were dropped
			n = count(rows, idOf(first), block.last).rows
		}
		state.Entries += int64(n)
	}
	b.tail = count(rows, sealed+1, b.last)
	state.Entries += int64(b.tail.rows)
	b.state.Store(state)
	return nil
}

// count returns the number and bytes of the entries with IDs from first to last.
func count(rows *bbolt.Bucket, first, last uint64) (t tail) {
	c := rows.Cursor()
	for k, v := c.Seek(keyOf(first)); k != nil && idOf(k) <= last; k, v = c.Next() {
		t.rows, t.bytes = t.rows+1, t.bytes+len(v)
	}
	return t
}

// used returns the bytes of the file that are in use.
func used(tx *bbolt.Tx) int64 {
	s := tx.DB().Stats()
	return tx.Size() - int64(s.FreePageN+s.PendingPageN)*int64(tx.DB().Info().PageSize)
}

// timeOf returns the time of the entry with an ID, or the zero time for ID 0.
func timeOf(id uint64) time.Time {
	if id == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(id)).UTC()
}

func keyOf(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

func idOf(key []byte) uint64 {
	if len(key) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(key)
}

// State returns the state of the book after the last write.
func (b *Book) State() State { return *b.state.Load() }

// A queue holds notes until the next write.
type queue struct {
	notes []*note
	bytes int64
}

// maxNotes is the largest number of notes in a queue.
const maxNotes = 4096

// queue returns the queue for a kind. Votes have their own, so that they do not wait behind checks.
func (b *Book) queue(kind Kind) *queue {
	if kind == Checked {
		return &b.checks
	}
	return &b.votes
}

// full reports whether a note of a kind would be lost now. If so, it counts the note as lost, and
// the caller need not make it.
func (b *Book) full(kind Kind) bool {
	b.mu.Lock()
	q := b.queue(kind)
	full := len(q.notes) >= maxNotes || q.bytes >= min(maxQueued, b.o.MaxBytes/32)
	b.mu.Unlock()
	if full {
		b.Stats.Lost.Add(1)
	}
	return full
}

// maxQueued is the largest number of bytes of signatures in a queue.
const maxQueued = 8 << 20

// add puts a note into its queue. Concurrent callers may exceed the limits by one note each.
func (b *Book) add(n *note) {
	b.mu.Lock()
	q := b.queue(n.Kind)
	q.notes, q.bytes = append(q.notes, n), q.bytes+int64(len(n.packed))
	b.mu.Unlock()
}

// take empties the queues.
func (b *Book) take() []*note {
	b.mu.Lock()
	all := slices.Concat(b.checks.notes, b.votes.notes)
	b.checks, b.votes = queue{}, queue{}
	b.mu.Unlock()
	slices.SortStableFunc(all, func(x, y *note) int { return cmp.Compare(x.ID, y.ID) })
	return all
}

// Run writes the queues periodically until ctx ends, and then once more. It also reads the written
// entries for the waves.
func (b *Book) Run(ctx context.Context) error {
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() { b.followAll(ctx) })
	for range clock.Ticks(ctx, b.o.Every) {
		b.Flush()
	}
	b.Flush()
	return nil
}

// Close writes the queued entries and closes the file. The book must not be used afterwards.
func (b *Book) Close() error {
	b.Flush()
	b.opened.Lock()
	defer b.opened.Unlock()
	db := b.db
	if b.db = nil; db == nil {
		return nil
	}
	return boltfile.Guard(db.Close)
}

// Flush writes the queues. Entries that cannot be written are lost and counted.
func (b *Book) Flush() {
	b.writing.Lock()
	defer b.writing.Unlock()
	notes := b.finish(b.take())
	if len(notes) == 0 && !b.expires() {
		return
	}
	err := b.update(func(tx *bbolt.Tx) error { return b.write(tx, notes) })
	switch {
	case err != nil:
		b.Stats.Failed.Add(int64(len(notes)))
		if !b.failing {
			b.o.Log.Error("history cannot be written", "err", err,
				"consequence", "entries are lost", "entries", len(notes))
		}
	case b.failing:
		b.o.Log.Info("history is written again", "lost", b.Stats.Failed.Load())
	}
	b.failing = err != nil
}

// expires reports whether the oldest entry is too old.
func (b *Book) expires() bool {
	oldest := b.state.Load().Oldest
	return !oldest.IsZero() && b.o.Now().Sub(oldest) > b.o.MaxAge
}

// update runs one write transaction. The caller holds writing.
func (b *Book) update(fn func(*bbolt.Tx) error) error {
	b.opened.RLock()
	db := b.db
	b.opened.RUnlock()
	if db == nil {
		if b.o.Now().Before(b.retry) {
			return errUnavailable
		}
		if err := b.open(); err != nil {
			return err
		}
		db = b.db
	}
	last, tail, state := b.last, b.tail, b.state.Load()
	err := boltfile.Guard(func() error { return db.Update(fn) })
	if err != nil {
		b.last, b.tail = max(last, b.last), tail
		b.state.Store(state)
	}
	if errors.Is(err, boltfile.ErrDamaged) {
		b.begin(db, err)
	}
	return err
}

// begin sets a damaged file aside and begins an empty one. The damaged file stays mapped, because
// other goroutines may be reading it. The caller holds writing.
func (b *Book) begin(db *bbolt.DB, why error) {
	b.opened.Lock()
	if b.db != db {
		b.opened.Unlock()
		return // another goroutine was first
	}
	b.db = nil
	b.rename(why)
	b.opened.Unlock()
	if err := b.open(); err != nil {
		b.o.Log.Error("file of the history cannot be opened", "path", b.path, "err", err,
			"consequence", "checks and votes are not recorded")
	}
}

// view runs one read transaction.
func (b *Book) view(fn func(*bbolt.Tx) error) error {
	b.opened.RLock()
	db := b.db
	if db == nil {
		b.opened.RUnlock()
		return errUnavailable
	}
	err := boltfile.Guard(func() error { return db.View(fn) })
	b.opened.RUnlock()
	if errors.Is(err, boltfile.ErrDamaged) {
		b.writing.Lock()
		b.begin(db, err)
		b.writing.Unlock()
	}
	return err
}

// write writes a batch of new entries.
func (b *Book) write(tx *bbolt.Tx, notes []*note) error {
	made := make([]Row, len(notes))
	for i, n := range notes {
		made[i] = Row{n.ID, n.encode()}
	}
	return b.put(tx, made, func(r *Row, _ *bbolt.Bucket) uint64 { return max(b.last+1, r.ID) })
}

// put writes entries, each with the ID that place returns, seals blocks, and drops entries beyond the limits of
// age and size.
func (b *Book) put(tx *bbolt.Tx, made []Row, place func(*Row, *bbolt.Bucket) uint64) error {
	state := *b.state.Load()
	expired, err := b.expire(tx)
	if err != nil {
		return err
	}
	rows := tx.Bucket(rowsBucket)
	rows.FillPercent = 1 // entries are appended
	bytes := 0
	for i := range made {
		id := place(&made[i], rows)
		if err := rows.Put(keyOf(id), made[i].Data); err != nil {
			return err
		}
		b.last, bytes = max(b.last, id), bytes+len(made[i].Data)
	}
	b.tail.rows, b.tail.bytes = b.tail.rows+len(made), b.tail.bytes+bytes
	if err := b.seal(tx); err != nil {
		return err
	}
	dropped, err := dropOldest(tx, used(tx)+int64(bytes)-b.room())
	if err != nil {
		return err
	}
	state.Entries += int64(len(made) - expired - dropped)
	first, _ := rows.Cursor().First()
	state.Oldest = timeOf(idOf(first))
	state.Bytes = used(tx)
	tx.OnCommit(func() {
		b.state.Store(&state)
		b.Stats.Written.Add(int64(len(made)))
	})
	return nil
}

// maxExpired is the largest number of entries that one transaction drops for their age.
const maxExpired = 4096

// expire drops entries that are too old, and returns their number.
func (b *Book) expire(tx *bbolt.Tx) (n int, err error) {
	rows, blocks := tx.Bucket(rowsBucket), tx.Bucket(blocksBucket)
	cutoff, sealed := b.cutoff(), lastSealed(tx)
	keys := between(rows, 0, cutoff, maxExpired)
	for _, k := range keys {
		if idOf(k) > sealed {
			b.tail.rows--
		}
		if err := rows.Delete(k); err != nil {
			return 0, err
		}
	}
	for {
		k, v := blocks.Cursor().First()
		if k == nil {
			return len(keys), nil
		}
		block, err := readBlock(k, v)
		if err != nil {
			return 0, err
		}
		if first, _ := rows.Cursor().First(); first != nil && block.last >= idOf(first) ||
			first == nil && block.last >= cutoff {
			return len(keys), nil
		}
		if err := blocks.Delete(slices.Clone(k)); err != nil {
			return 0, err
		}
	}
}

// cutoff returns the lowest ID of an entry that is not too old.
func (b *Book) cutoff() uint64 { return uint64(max(0, b.o.Now().Add(-b.o.MaxAge).UnixMicro())) }

// between returns copies of at most n keys with IDs from first up to but not including end.
func between(rows *bbolt.Bucket, first, end uint64, n int) (keys [][]byte) {
	c := rows.Cursor()
	for k, _ := c.Seek(keyOf(first)); k != nil && idOf(k) < end && len(keys) < n; k, _ = c.Next() {
		keys = append(keys, slices.Clone(k))
	}
	return keys
}

// dropOldest drops the oldest blocks, until these had the given number of bytes, and returns the
// number of their entries.
func dropOldest(tx *bbolt.Tx, bytes int64) (n int, err error) {
	rows, blocks := tx.Bucket(rowsBucket), tx.Bucket(blocksBucket)
	for bytes > 0 {
		k, v := blocks.Cursor().First()
		if k == nil {
			return n, nil
		}
		block, err := readBlock(k, v)
		if err != nil {
			return n, err
		}
		bytes -= int64(block.bytes)
		keys := between(rows, 0, block.last+1, math.MaxInt)
		for _, k := range keys {
			if err := rows.Delete(k); err != nil {
				return n, err
			}
		}
		n += len(keys)
		if err := blocks.Delete(slices.Clone(k)); err != nil {
			return n, err
		}
	}
	return n, nil
}

// finish does the work on notes for which the doors should not wait. It also merges a sighting with
// the check of the same message by the same reporter that it follows.
func (b *Book) finish(notes []*note) []*note {
	checks := make(map[uint64]*note)
	out := notes[:0]
	for _, n := range notes {
		if before := checks[n.sum]; before != nil && n.Kind == Sighted {
			before.Count, before.Recipients = n.Count, b.mailboxes(n.to)
			continue
		}
		if n.Kind == Checked {
			checks[n.sum] = n
		}
		b.complete(n)
		out = append(out, n)
	}
	return out
}

// complete sets the derived fields of a note.
func (b *Book) complete(n *note) {
	n.Account, n.User = n.who.Account, n.who.User
	var ok bool
	if n.Space, ok = b.o.Space(n.who); !ok {
		n.Space = NoSpace
	}
	if n.Account == "" && n.Space != "" {
		n.Network = door.NetworkOf(n.who.Addr).String()
	}
	n.From = domainOf(n.from)
	n.Domains = linked(n.packed)
	n.Message = b.MessageID(n.messageID)
	n.Recipients = b.mailboxes(n.to)
	if !b.o.Subjects {
		n.Subject = ""
	}
}

func (b *Book) mailboxes(to []string) []Mailbox {
	var all []Mailbox
	for _, address := range to[:min(len(to), maxMailboxes)] {
		all = append(all, b.o.Key.Mailbox(address))
	}
	return all
}

// NoSpace is the Space of messages of reporters without the right to report.
const NoSpace = "-"

// domainOf returns the domain of an address, in lower case.
func domainOf(address string) string {
	return strings.ToLower(strings.TrimSuffix(address[strings.LastIndexByte(address, '@')+1:], "."))
}

// linked returns the hosts of the links among packed signatures.
func linked(packed []byte) (hosts []string) {
	for one := range packedOnes(packed) {
		if codes[one[0]] != bulkhead.Link || one[2] == 0 { // the signature is a hash of the host
			continue
		}
		host := string(one[2:])
		if at := strings.IndexAny(host, "/?#:"); at >= 0 {
			host = host[:at]
		}
		if host = strings.ToLower(host); host != "" && len(hosts) < maxDomains && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// MessageID returns the keyed hash of a Message-ID; see [Key.MessageID].
func (b *Book) MessageID(text string) MessageID { return b.o.Key.MessageID(text) }

// Mailbox returns the keyed hashes of a mail address; see [Key.Mailbox].
func (b *Book) Mailbox(address string) Mailbox { return b.o.Key.Mailbox(address) }
