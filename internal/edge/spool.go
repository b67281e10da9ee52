package edge

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
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

	mu    sync.Mutex
	n     int
	bytes int64
	wake  chan struct{} // signalled when a report was added
}

// spoolBucket holds the reports: a number, 8 bytes big-endian, and a kept report in JSON.
var spoolBucket = []byte("reports of version 1")

// A kept is a report in a spool.
type kept struct {
	At     time.Time // when it came
	Report bulkhead.Report

	key []byte
}

// OpenSpool opens the spool in a file, which it makes if necessary. The reports may take limit bytes. A damaged file is
// renamed to path + ".damaged", and the reports that can still be read are in the new file. A crash at any moment loses
// none of them.
func OpenSpool(path string, limit int64, log *slog.Logger) (*Spool, error) {
	s := &Spool{limit: limit, wake: make(chan struct{}, 1)}
	for _, step := range renewal(path, log) {
		if err := step(); err != nil {
			return nil, fmt.Errorf("edge: spool %s: %w", path, err)
		}
	}
	err := s.open(path)
	if err == nil { // before a report is acknowledged: after a crash the new file would be gone
		err = wholefile.SyncFolder(filepath.Dir(path))
	}
	if err != nil {
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
			why := boltfile.Copy(path, fresh)
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

// open opens a file without damage, which it makes if necessary.
func (s *Spool) open(path string) error {
	db, err := boltfile.Open(path, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		return err
	}
	db.MaxBatchDelay = 2 * time.Millisecond // a report waits for it
	if err := db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(spoolBucket)
		if err != nil {
			return err
		}
		if last, _ := b.Cursor().Last(); len(last) == 8 && binary.BigEndian.Uint64(last) > b.Sequence() {
			// No new report replaces one that waits.
			if err := b.SetSequence(binary.BigEndian.Uint64(last)); err != nil {
				return err
			}
		}
		return b.ForEach(func(_, v []byte) error {
			s.n, s.bytes = s.n+1, s.bytes+int64(len(v))
			return nil
		})
	}); err != nil {
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
				err = add(b, text)
			}
		}
		return err
	})
	return len(texts), errors.Join(err, db.Close())
}

// add adds a report after all others.
func add(b *bbolt.Bucket, text []byte) error {
	n, err := b.NextSequence()
	if err != nil {
		return err
	}
	return b.Put(binary.BigEndian.AppendUint64(nil, n), text)
}

// readable returns the reports that can be read of a damaged file.
func readable(path string) (texts [][]byte) {
	// Its error is known.
	_ = boltfile.Inspect(path, func(tx *bbolt.Tx) error {
		b := tx.Bucket(spoolBucket)
		if b == nil {
			return boltfile.ErrDamaged
		}
		return b.ForEach(func(_, v []byte) error {
			if json.Valid(v) {
				texts = append(texts, bytes.Clone(v))
			}
			return nil
		})
	})
	return texts
}

// InspectSpool reads a whole file and returns an error if it is damaged. It changes nothing. It does not read a file
// that a node has open.
func InspectSpool(path string) error {
	return boltfile.Inspect(path, func(tx *bbolt.Tx) error {
		b := tx.Bucket(spoolBucket)
		if b == nil {
			return boltfile.ErrDamaged
		}
		return b.ForEach(func(k, v []byte) error {
			if !json.Valid(v) {
				return fmt.Errorf("%w: report %x", boltfile.ErrDamaged, k)
			}
			return nil
		})
	})
}

// Close closes the file. The reports stay in it.
func (s *Spool) Close() error { return s.db.Close() }

// Len returns the number of reports, and their bytes.
func (s *Spool) Len() (n int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n, s.bytes
}

// put adds a report, and returns once it is on disk. It returns an error that wraps [bulkhead.ErrReadOnly] if
// the spool is full or the disk fails.
func (s *Spool) put(r bulkhead.Report, at time.Time) error {
	text, err := json.Marshal(kept{At: at.UTC(), Report: r})
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
		s.n, s.bytes = s.n+1, have+size
	}
	s.mu.Unlock()
	if full {
		return fmt.Errorf("edge: %w: the spool has %d bytes of reports, limit %d", bulkhead.ErrReadOnly, have, s.limit)
	}
	err := s.db.Batch(func(tx *bbolt.Tx) error { return add(tx.Bucket(spoolBucket), text) })
	if err != nil {
		s.mu.Lock()
		s.n, s.bytes = s.n-1, s.bytes-size
		s.mu.Unlock()
		return fmt.Errorf("edge: %w: spool: %v", bulkhead.ErrReadOnly, err)
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// first returns up to most of the oldest reports. A report that cannot be read ends them; alone it is returned
// with an empty report, so that the caller drops it.
func (s *Spool) first(most int) (out []kept, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket(spoolBucket).Cursor()
		for k, v := c.First(); k != nil && len(out) < most; k, v = c.Next() {
			var x kept
			if json.Unmarshal(v, &x) != nil {
				x = kept{}
			}
			x.key = append([]byte(nil), k...)
			out = append(out, x)
		}
		return nil
	})
	return out, err
}

// remove removes reports that the upstream has taken.
func (s *Spool) remove(all []kept) error {
	if len(all) == 0 {
		return nil
	}
	n, bytes := 0, int64(0)
	err := s.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(spoolBucket)
		for _, x := range all {
			n, bytes = n+1, bytes+int64(len(b.Get(x.key)))
			if err := b.Delete(x.key); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		s.mu.Lock()
		s.n, s.bytes = s.n-n, s.bytes-bytes
		s.mu.Unlock()
	}
	return err
}

const (
	// deliverEvery is the time between two attempts to deliver reports while the upstream takes none.
	deliverEvery = time.Second
	// maxWaits is how often the oldest report may be over a limit of the upstream. A report that is always
	// refused must not keep back the others.
	maxWaits = 60
)

// A delivery is the state of the delivery of a spool. Only its goroutine uses it.
type delivery struct {
	every time.Duration
	key   string // of the report that was over a limit
	waits int    // how often
}

// waits reports whether a report that is over a limit of the upstream is tried again.
func (e *Edge) waits(x *kept) bool {
	d := &e.delivery
	if d.key != string(x.key) {
		d.key, d.waits = string(x.key), 0
	}
	d.waits++
	return d.waits < maxWaits
}

// Deliver passes the reports of the spool to the upstream, oldest first, until ctx ends.
func (e *Edge) Deliver(ctx context.Context) error {
	if e.spool == nil {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(e.delivery.every)
	defer tick.Stop()
	for {
		for {
			whole, err := e.deliver(ctx)
			if err != nil && ctx.Err() == nil {
				e.health.log.Error("reports of the spool cannot be delivered", "err", err, "next_try", e.delivery.every)
			}
			if !whole || err != nil {
				break
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-e.spool.wake:
			if e.health.away() { // the tick tries it
				select {
				case <-ctx.Done():
					return nil
				case <-tick.C:
				}
			}
		}
	}
}

// deliver passes the oldest reports to the upstream. whole reports whether all of them were taken, so that
// others may follow.
func (e *Edge) deliver(ctx context.Context) (whole bool, err error) {
	if n, _ := e.spool.Len(); n == 0 {
		return false, nil
	}
	all, err := e.spool.first(batchSize)
	if err != nil || len(all) == 0 {
		return false, err
	}
	all = apart(all)
	reports := make([]bulkhead.Report, len(all))
	for i := range all {
		reports[i] = all[i].Report
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	results, err := e.sendReports(ctx, reports)
	if errors.Is(err, bulkhead.ErrMalformed) && len(all) > 1 {
		all = all[:1]
		results, err = e.sendReports(ctx, reports[:1])
	}
	if err != nil && !errors.Is(err, bulkhead.ErrMalformed) {
		return false, nil // it is away, which the log has
	}
	taken := 0
	for taken < len(all) {
		one := err
		if err == nil {
			one = results[taken].err
		}
		over := errors.Is(one, bulkhead.ErrOverLimit)
		if down(one) || errors.Is(one, bulkhead.ErrReadOnly) || over && e.waits(&all[taken]) {
			break // it keeps its place
		}
		if one != nil {
			e.Stats.Dropped.Add(1)
			e.health.log.Error("the upstream refused a report of the spool, which was dropped", "err", one,
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
