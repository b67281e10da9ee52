package edge

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/boltfile"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// A Spool keeps reports on disk, in order, while the upstream does not take them. Its methods may be called
// concurrently.
type Spool struct {
	db    *bbolt.DB
	limit int64

	mu     sync.Mutex
	bytes  int64
	to     func(entry) string // the name of the shard of a report
	queues map[string]*queue  // by the name of the shard; "" is the only upstream, or no shard yet
	marks  map[uint64]string  // by repeatKey: the shards that may have a report
}

// A queue has the reports in a spool for one shard, the oldest first.
type queue struct {
	all  []*entry
	wake chan struct{} // signalled when a report was added
}

// An entry is a report in a spool.
type entry struct {
	key     uint64
	mailbox string // by which it is routed
	may     string // shard that may have it already; "" for none
	repeat  uint64 // its repeatKey
}

func newEntry(key uint64, text []byte) *entry {
	x := read(text)
	return &entry{key, mailboxOf(&x.Report), x.May, repeatKey(&x.Report)}
}

// spoolBucket holds the reports: a number, 8 bytes big-endian, and a kept report in JSON.
var spoolBucket = []byte("reports of version 1")

// A kept is a report in a spool.
type kept struct {
	At     time.Time // when it came
	May    string    `json:",omitempty"` // shard that may have it already; "" for none
	Report bulkhead.Report

	key uint64
}

// read reads a report in JSON. One that cannot be read is empty, so that the upstream refuses it.
func read(text []byte) (x kept) {
	if json.Unmarshal(text, &x) != nil {
		return kept{}
	}
	return x
}

// OpenSpool opens the spool in a file, which it makes if necessary. The reports may take limit bytes. A damaged file is
// renamed to path + ".damaged", and the reports that can still be read are in the new file. A crash at any moment loses
// none of them.
func OpenSpool(path string, limit int64, log *slog.Logger) (*Spool, error) {
	s := &Spool{limit: limit, queues: make(map[string]*queue), marks: make(map[uint64]string),
		to: func(entry) string { return "" }}
	for _, step := range renewal(path, log) {
		if err := step(); err != nil {
			return nil, fmt.Errorf("edge: spool %s: %w", path, err)
		}
	}
	if err := s.open(path); err != nil {
		return nil, fmt.Errorf("edge: spool %s: %w", path, err)
	}
	return s, nil
}

// renewal returns the steps that write a file anew, if there is one. The library may read a damaged file to its end,
// and panic when the file is changed. The new file is complete and on disk under another name before the file is moved.
// After a crash between two steps, the next renewal has all reports.
func renewal(path string, log *slog.Logger) []func() error {
	fresh, aside := path+".new", path+".damaged"
	missing, damaged := false, false
	return []func() error{
		func() error { // a crash between the last two steps
			_, err := os.Stat(path)
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if err = os.Rename(fresh, path); errors.Is(err, fs.ErrNotExist) {
				missing, err = true, nil
			}
			return err
		},
		func() error {
			if missing {
				return nil
			}
			if err := os.RemoveAll(fresh); err != nil {
				return err
			}
			why := errors.Join(boltfile.Copy(path, fresh), boltfile.Inspect(fresh, checkKeys))
			if damaged = errors.Is(why, boltfile.ErrDamaged); !damaged {
				return why
			}
			kept, err := salvage(path, fresh)
			log.Error("the spool of reports was damaged", "path", path, "why", why, "moved_to", aside, "reports_kept", kept,
				"consequence", "the other reports in it are lost")
			return err
		},
		func() error { return wholefile.SyncFolder(filepath.Dir(path)) },
		func() error {
			if !damaged {
				return nil
			}
			return os.Rename(path, aside)
		},
		func() error {
			if missing {
				return nil
			}
			return os.Rename(fresh, path)
		},
	}
}

const keySize = 8 // bytes; see keyBytes

// checkKeys returns an error if a report has a key of another length.
func checkKeys(tx *bbolt.Tx) error {
	return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
		return b.ForEach(func(k, _ []byte) error {
			if len(k) != keySize {
				return fmt.Errorf("%w: report %x", boltfile.ErrDamaged, k)
			}
			return nil
		})
	})
}

// batchDelay is how long a report waits for others that are written to the disk together with it.
const batchDelay = 2 * time.Millisecond

// open opens a file without damage, which it makes if necessary.
func (s *Spool) open(path string) error {
	db, err := boltfile.Open(path, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		return err
	}
	db.MaxBatchDelay = batchDelay
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(spoolBucket)
		if err != nil {
			return err
		}
		var last uint64
		err = b.ForEach(func(k, v []byte) error {
			last = binary.BigEndian.Uint64(k)
			s.bytes += int64(len(v))
			s.insert(newEntry(last, v))
			return nil
		})
		return errors.Join(err, b.SetSequence(last)) // no new report replaces one that waits
	})
	// Before a report is acknowledged: after a crash the new file would be gone.
	if err := errors.Join(err, wholefile.SyncFolder(filepath.Dir(path))); err != nil {
		return errors.Join(err, db.Close())
	}
	s.db = db
	return nil
}

// salvage writes the reports that can be read of a damaged file to a new one, and returns their number.
func salvage(path, fresh string) (kept int, err error) {
	texts := readable(path)
	if err := os.RemoveAll(fresh); err != nil { // what Copy has written
		return 0, err
	}
	db, err := boltfile.Open(fresh, nil)
	if err != nil {
		return 0, err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket(spoolBucket)
		for _, text := range texts {
			if err == nil {
				_, err = add(b, text)
			}
		}
		return err
	})
	return len(texts), errors.Join(err, db.Close())
}

// add adds a report after all others, and returns its key.
func add(b *bbolt.Bucket, text []byte) (uint64, error) {
	key, err := b.NextSequence()
	return key, errors.Join(err, b.Put(keyBytes(key), text))
}

// readable returns the reports that can be read of a damaged file.
func readable(path string) (texts [][]byte) {
	// Its error is known.
	_ = eachReport(path, func(_, v []byte) error {
		if json.Valid(v) {
			texts = append(texts, bytes.Clone(v))
		}
		return nil
	})
	return texts
}

// eachReport reads a file, and calls visit for each report until it returns an error.
func eachReport(path string, visit func(key, text []byte) error) error {
	return boltfile.Inspect(path, func(tx *bbolt.Tx) error {
		b := tx.Bucket(spoolBucket)
		if b == nil {
			return boltfile.ErrDamaged
		}
		return b.ForEach(visit)
	})
}

// InspectSpool reads a whole file and returns an error if it is damaged. It changes nothing. It does not read a file
// that a node has open.
func InspectSpool(path string) error {
	return errors.Join(boltfile.Inspect(path, checkKeys), eachReport(path, func(k, v []byte) error {
		if !json.Valid(v) {
			return fmt.Errorf("%w: report %x", boltfile.ErrDamaged, k)
		}
		return nil
	}))
}

// Close closes the file. The reports stay in it.
func (s *Spool) Close() error { return s.db.Close() }

// Len returns the number of reports, and their bytes.
func (s *Spool) Len() (n int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.queues {
		n += len(q.all)
	}
	return n, s.bytes
}

// waiting returns the number of reports in the queue of a shard.
func (s *Spool) waiting(shard string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.queues[shard]; q != nil {
		return len(q.all)
	}
	return 0
}

// waits reports whether reports wait in the queue of a shard.
func (s *Spool) waits(shard string) bool { return s.waiting(shard) > 0 }

// queue returns the queue of a shard. The caller holds mu.
func (s *Spool) queue(shard string) *queue {
	q := s.queues[shard]
	if q == nil {
		q = &queue{wake: make(chan struct{}, 1)}
		s.queues[shard] = q
	}
	return q
}

// insert puts an entry into its queue, by its key. The repetition of a report that a shard may have is for the same
// shard, although the shard cannot have the repetition yet. The caller holds mu.
func (s *Spool) insert(x *entry) {
	routed := *x
	routed.may = cmp.Or(x.may, s.marks[x.repeat])
	q := s.queue(s.to(routed))
	// Two reports may be on disk in either order.
	at, _ := slices.BinarySearchFunc(q.all, x, func(a, b *entry) int { return cmp.Compare(a.key, b.key) })
	q.all = slices.Insert(q.all, at, x)
	s.mark(x)
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// mark notes that a shard may have a report. The caller holds mu.
func (s *Spool) mark(x *entry) {
	if x.may != "" && x.repeat != 0 {
		s.marks[x.repeat] = x.may
	}
}

// marked returns the shard that may have a report in the spool, by its repeatKey; "" for none.
func (s *Spool) marked(repeat uint64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.marks[repeat]
}

// route changes which shard a report is for. to is called while the spool is locked.
func (s *Spool) route(to func(entry) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*entry
	for _, q := range s.queues {
		all = append(all, q.all...)
		q.all = nil // the queue stays: its delivery waits for wake
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.key, b.key) })
	s.to = to
	for _, x := range all {
		s.insert(x)
	}
}

// woken returns a channel that is signalled when a report was added to the queue of a shard.
func (s *Spool) woken(shard string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue(shard).wake
}

// put adds a report that a shard may have already, "" for none, and returns once it is on disk. It returns an error
// that wraps [bulkhead.ErrReadOnly] if the spool is full or the disk fails.
func (s *Spool) put(r bulkhead.Report, may string, at time.Time) error {
	text, err := json.Marshal(kept{At: at.UTC(), May: may, Report: r})
	if err != nil {
		return fmt.Errorf("edge: %w: %v", bulkhead.ErrMalformed, err)
	}
	return s.putText(text)
}

func (s *Spool) putText(text []byte) error {
	size := int64(len(text))
	s.mu.Lock()
	have := s.bytes
	full := have+size > s.limit
	if !full {
		s.bytes += size
	}
	s.mu.Unlock()
	if full {
		return fmt.Errorf("edge: %w: the spool has %d bytes of reports, limit %d", bulkhead.ErrReadOnly, have, s.limit)
	}
	var key uint64
	err := s.db.Batch(func(tx *bbolt.Tx) (err error) {
		key, err = add(tx.Bucket(spoolBucket), text)
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.bytes -= size
		return fmt.Errorf("edge: %w: spool: %v", bulkhead.ErrReadOnly, err)
	}
	s.insert(newEntry(key, text))
	return nil
}

func keyBytes(key uint64) []byte { return binary.BigEndian.AppendUint64(nil, key) }

// claim returns up to most of the oldest reports of the queue of a shard. From then on that shard may have them, which
// is on disk when claim returns: a later map gives them to no other one. A report that cannot be read is empty.
func (s *Spool) claim(shard string, most int) (out []kept, err error) {
	s.mu.Lock()
	q := s.queue(shard)
	batch := slices.Clone(q.all[:min(len(q.all), most)])
	former := make(map[*entry]string) // what may was
	for _, x := range batch {
		if x.may != shard {
			former[x], x.may = x.may, shard
			s.mark(x)
		}
	}
	s.mu.Unlock()
	var grown int64
	look := func(tx *bbolt.Tx) error {
		b := tx.Bucket(spoolBucket)
		for _, e := range batch {
			text := b.Get(keyBytes(e.key))
			x := read(text)
			x.key = e.key
			out = append(out, x)
			if _, marks := former[e]; !marks || len(x.Report.Signatures) == 0 {
				continue // what cannot be read stays as it is
			}
			x.May = shard
			marked, err := json.Marshal(x)
			grown += int64(len(marked) - len(text))
			if err := errors.Join(err, b.Put(keyBytes(e.key), marked)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(former) == 0 {
		err = s.db.View(look)
	} else {
		err = s.db.Update(look)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		for x, may := range former {
			x.may = may
		}
		return nil, err
	}
	s.bytes += grown
	return out, nil
}

// remove removes reports that the upstream has taken.
func (s *Spool) remove(all []kept) error {
	if len(all) == 0 {
		return nil
	}
	var bytes int64
	keys := make(map[uint64]bool)
	err := s.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(spoolBucket)
		for _, x := range all {
			keys[x.key] = true
			bytes += int64(len(b.Get(keyBytes(x.key))))
			if err := b.Delete(keyBytes(x.key)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes -= bytes
	for _, q := range s.queues {
		q.all = slices.DeleteFunc(q.all, func(x *entry) bool {
			if keys[x.key] {
				delete(s.marks, x.repeat) // the edge remembers that it was sent
			}
			return keys[x.key]
		})
	}
	return nil
}

const (
	// deliverEvery is the time between two attempts to deliver reports while the upstream takes none.
	deliverEvery = time.Second
	// maxWaits is how often the oldest report may be over a limit of the upstream. A report that is always
	// refused must not keep back the others.
	maxWaits = 60
)

// A delivery is the state of the delivery of a queue. Only its goroutine uses it.
type delivery struct {
	key   uint64 // of the report that was over a limit
	waits int    // how often
}

// again reports whether a report that is over a limit of the upstream is tried again.
func (d *delivery) again(x *kept) bool {
	if d.key != x.key {
		d.key, d.waits = x.key, 0
	}
	d.waits++
	return d.waits < maxWaits
}

// Deliver passes the reports of the spool to the upstreams, oldest first, until ctx ends.
func (e *Edge) Deliver(ctx context.Context) error {
	if e.spool == nil {
		<-ctx.Done()
		return nil
	}
	e.each(ctx, e.deliverTo)
	return nil
}

func (e *Edge) deliverTo(ctx context.Context, t *target) {
	tick, wake := time.NewTicker(e.every), e.spool.woken(t.name)
	defer tick.Stop()
	for {
		for {
			whole, err := e.deliver(ctx, t)
			if err != nil && ctx.Err() == nil {
				t.health.log.Error("reports of the spool cannot be delivered", "err", err, "next_try", e.every)
			}
			if !whole || err != nil {
				break
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-wake:
			if t.health.away() { // the tick tries it
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
			}
		}
	}
}

// deliver passes the oldest reports to an upstream. whole reports whether all of them were taken, so that
// others may follow.
func (e *Edge) deliver(ctx context.Context, t *target) (whole bool, err error) {
	if e.spool.waits(t.name) && t.health.away() && t.answers(ctx) != nil {
		return false, nil // no report is claimed: a new map may give it to a shard that answers
	}
	all, err := e.spool.claim(t.name, batchSize)
	if err != nil || len(all) == 0 {
		return false, err
	}
	all = apart(all)
	reports := make([]bulkhead.Report, len(all))
	for i := range all {
		reports[i] = all[i].Report
		e.sent.put(repeatKey(&reports[i]), t.name)
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	results, err := t.sendReports(ctx, reports)
	if errors.Is(err, bulkhead.ErrMalformed) && len(all) > 1 {
		all = all[:1]
		results, err = t.sendReports(ctx, reports[:1])
	}
	if down(err) || errors.Is(err, bulkhead.ErrReadOnly) {
		return false, nil // it will take them; if it is away, the log has that
	}
	if err != nil && !errors.Is(err, bulkhead.ErrMalformed) {
		return false, err // the upstream refuses the edge itself
	}
	taken := 0
	for taken < len(all) {
		one := err
		if err == nil {
			one = results[taken].err
		}
		over := errors.Is(one, bulkhead.ErrOverLimit)
		if down(one) || errors.Is(one, bulkhead.ErrReadOnly) || over && t.delivery.again(&all[taken]) {
			break // it keeps its place
		}
		if one != nil {
			e.Stats.Dropped.Add(1)
			t.health.log.Error("the upstream refused a report of the spool, which was dropped", "err", one,
				"id", all[taken].Report.ID, "from", all[taken].At)
		} else {
			e.Stats.Delivered.Add(1)
		}
		taken++
	}
	return taken == len(all), e.spool.remove(all[:taken])
}

// apart cuts a batch before the first report of a reporter who has another vote in it: the upstream may take
// the reports of a batch in any order.
func apart(all []kept) []kept {
	voted := make(map[bulkhead.Reporter]bulkhead.Vote)
	for i := range all {
		r := &all[i].Report
		if vote, ok := voted[r.Reporter]; ok && vote != r.Vote {
			return all[:i]
		}
		voted[r.Reporter] = r.Vote
	}
	return all
}
