package logbook

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/boltfile"
)

// A Sum counts the checks and reports of the clients of one door.
type Sum struct {
	Verdicts [bulkhead.NumClasses]uint64 // answers to checks of messages, by class
	Looks    uint64                      // looks at single signatures, which have no class
	Votes    [bulkhead.NumVotes]uint64   // accepted sightings and votes
	Traps    uint64                      // votes for spam that spam traps gave, of those in Votes
}

// fields returns pointers to the numbers of a sum, in the order of the stored form. New numbers are
// appended.
func (s *Sum) fields() (all [numFields]*uint64) {
	n := 0
	add := func(field *uint64) {
		all[n] = field
		n++
	}
	for i := range s.Verdicts {
		add(&s.Verdicts[i])
	}
	add(&s.Looks)
	for i := range s.Votes {
		add(&s.Votes[i])
	}
	add(&s.Traps)
	return all
}

const numFields = int(bulkhead.NumClasses) + 1 + int(bulkhead.NumVotes) + 1

// Add adds n to s.
func (s *Sum) Add(n *Sum) {
	to, from := s.fields(), n.fields()
	for i := range to {
		*to[i] += *from[i]
	}
}

// A Slot holds the sums of a period, by door. Doors without requests are not in it.
type Slot struct {
	Start time.Time
	Doors map[string]Sum
}

// The lengths of the slots of [Sums]: for the last three hours, the last day and the last 90 days.
const (
	MinuteSlot = time.Minute
	ShortSlot  = 10 * time.Minute
	LongSlot   = time.Hour
	minuteFor  = 3 * time.Hour
	shortFor   = 24 * time.Hour
	longFor    = 90 * 24 * time.Hour
)

// numSeries is the number of series of slots.
const numSeries = 3

// maxSumDoors is the largest number of doors in a slot.
const maxSumDoors = 64

// A series holds slots of one length, up to a limit.
type series struct {
	bucket []byte
	length time.Duration
	most   int
	slots  map[int64]map[string]Sum // by the second of their start
	dirty  map[int64]bool           // slots whose form on disk is outdated, and dropped slots
}

func newSeries(bucket string, length, all time.Duration) *series {
	// One more than fit into the period, because the oldest slot is only partly inside it.
	return &series{[]byte(bucket), length, int(all/length) + 1, make(map[int64]map[string]Sum), make(map[int64]bool)}
}

// add adds the numbers of a door to the slot of a time. If there are too many slots, it drops the
// farthest from now: the oldest, or slots in the future that a wrong clock has left.
func (s *series) add(now time.Time, door string, n *Sum) {
	at := now.Truncate(s.length).Unix()
	if s.slots[at] == nil {
		s.slots[at] = make(map[string]Sum)
	}
	sum, known := s.slots[at][door]
	if !known && len(s.slots[at]) >= maxSumDoors {
		return
	}
	sum.Add(n)
	s.slots[at][door] = sum
	s.dirty[at] = true
	for len(s.slots) > s.most {
		farthest := at
		for start := range s.slots {
			if max(start-at, at-start) > max(farthest-at, at-farthest) {
				farthest = start
			}
		}
		delete(s.slots, farthest)
		s.dirty[farthest] = true
	}
}

// SumsStats are the counters of [Sums].
type SumsStats struct {
	Failed  atomic.Int64 // failed writes, which are retried
	Damaged atomic.Int64 // slots, or whole files, that could not be read, and are lost
}

// Sums counts the answers to checks by class and the accepted votes of each door, over the last three
// hours, the last day and the last 90 days. They have a small file of their own, and so do not depend on the
// entries of a [Book]. They are held in memory and written when Write is called. Methods may be
// called concurrently.
type Sums struct {
	Stats SumsStats

	path string
	log  *slog.Logger

	mu     sync.Mutex
	last   map[string]Sum // counters of the doors at the last call of Note
	series [numSeries]*series

	writing sync.Mutex
	db      *bbolt.DB // nil: no open file
}

// OpenSums reads the sums in a file, which is created if necessary. A damaged file is renamed to
// path + ".damaged", and an empty one takes its place. If the file cannot be opened for another
// reason, the error is logged, and each Write tries again. A nil log discards messages.
func OpenSums(path string, log *slog.Logger) *Sums {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Sums{path: path, log: log, last: make(map[string]Sum), series: [numSeries]*series{
		newSeries("short", ShortSlot, shortFor), newSeries("long", LongSlot, longFor),
		newSeries("minute", MinuteSlot, minuteFor),
	}}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.open(); err != nil {
		log.Error("file of the numbers of verdicts cannot be opened", "path", path, "err", err,
			"consequence", "they are lost when the node stops")
	}
	return s
}

// open opens and reads the file, or replaces a damaged file with an empty one. The caller holds
// writing.
func (s *Sums) open() error {
	err := s.openFile()
	if errors.Is(err, boltfile.ErrDamaged) {
		if err = s.aside(err); err == nil {
			err = s.openFile()
		}
	}
	return err
}

func (s *Sums) openFile() error {
	var db *bbolt.DB
	var found [numSeries]map[int64]map[string]Sum
	for i := range found {
		found[i] = make(map[int64]map[string]Sum)
	}
	err := boltfile.Guard(func() (err error) {
		if db, err = boltfile.Open(s.path, &bbolt.Options{Timeout: time.Second}); err != nil {
			return err
		}
		return db.View(func(tx *bbolt.Tx) error {
			for i, series := range s.series {
				s.readSeries(tx.Bucket(series.bucket), found[i])
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	s.db = db
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, series := range s.series {
		series.merge(found[i])
	}
	return nil
}

// readSeries reads the slots of a bucket, which may be nil.
func (s *Sums) readSeries(b *bbolt.Bucket, into map[int64]map[string]Sum) {
	if b == nil {
		return
	}
	c := b.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		doors, err := decodeSums(v)
		if err != nil || len(k) != 8 {
			s.Stats.Damaged.Add(1)
			continue
		}
		into[int64(idOf(k))] = doors
	}
}

// merge adds slots from disk to the sums noted before the file could be read.
func (s *series) merge(found map[int64]map[string]Sum) {
	for at, doors := range found {
		for name, n := range s.slots[at] {
			sum := doors[name]
			sum.Add(&n)
			doors[name] = sum
		}
		s.slots[at] = doors
	}
}

// aside renames a damaged file and abandons it. The file stays mapped. All slots in memory are
// marked to be written again. The caller holds writing.
func (s *Sums) aside(why error) error {
	s.db = nil
	s.Stats.Damaged.Add(1)
	err := os.Rename(s.path, s.path+".damaged")
	s.log.Error("file of the numbers of verdicts was damaged", "path", s.path, "why", why,
		"moved_to", s.path+".damaged", "err", err, "consequence", "the file begins anew")
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, series := range s.series {
		for at := range series.slots {
			series.dirty[at] = true
		}
	}
	return err
}

// Note adds the counts of the doors since the last call. counted holds their present counters,
// which began at zero with s and only grow.
func (s *Sums) Note(now time.Time, counted map[string]Sum) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(counted)) {
		sum, before := counted[name], s.last[name]
		n := sum
		to, from, changed := n.fields(), before.fields(), false
		for i := range to {
			*to[i] -= *from[i]
			changed = changed || *to[i] > 0
		}
		if !changed {
			continue
		}
		s.last[name] = sum
		for _, series := range s.series {
			series.add(now, name, &n)
		}
	}
}

// Slots returns the slots that begin at or after since and before until, the oldest first. Their
// length is [MinuteSlot], for the last three hours alone, [ShortSlot], for the last day alone, or
// [LongSlot] or a multiple of it. Slots of a day
// begin at midnight UTC. Slots without requests are left out.
func (s *Sums) Slots(since, until time.Time, length time.Duration) []Slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := s.series[1]
	switch {
	case length%ShortSlot != 0:
		from = s.series[2]
	case length%LongSlot != 0:
		from = s.series[0]
	}
	all := make(map[int64]map[string]Sum)
	for at, doors := range from.slots {
		start := time.Unix(at, 0).UTC().Truncate(length)
		if start.Before(since) || !start.Before(until) {
			continue
		}
		to := all[start.Unix()]
		if to == nil {
			to = make(map[string]Sum)
			all[start.Unix()] = to
		}
		for name, n := range doors {
			sum := to[name]
			sum.Add(&n)
			to[name] = sum
		}
	}
	out := make([]Slot, 0, len(all))
	for _, at := range slices.Sorted(maps.Keys(all)) {
		out = append(out, Slot{Start: time.Unix(at, 0).UTC(), Doors: all[at]})
	}
	return out
}

// Write writes the changes since the last call. A failure is counted, and the next call tries
// again.
func (s *Sums) Write() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	err := s.write()
	if errors.Is(err, boltfile.ErrDamaged) {
		if err = s.aside(err); err == nil {
			err = s.write()
		}
	}
	if err != nil {
		s.Stats.Failed.Add(1)
	}
	return err
}

// write writes the changed slots. The caller holds writing.
func (s *Sums) write() error {
	if s.db == nil {
		if err := s.open(); err != nil {
			return err
		}
	}
	changed, values := s.changed()
	if len(slices.Concat(changed[:]...)) == 0 {
		return nil
	}
	err := boltfile.Guard(func() error {
		return s.db.Update(func(tx *bbolt.Tx) error {
			for i, series := range s.series {
				b, err := tx.CreateBucketIfNotExists(series.bucket)
				if err != nil {
					return err
				}
				for k, at := range changed[i] {
					if data := values[i][k]; data == nil {
						err = b.Delete(keyOf(uint64(at)))
					} else {
						err = b.Put(keyOf(uint64(at)), data)
					}
					if err != nil {
						return err
					}
				}
			}
			return nil
		})
	})
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, series := range s.series {
			for _, at := range changed[i] {
				series.dirty[at] = true
			}
		}
	}
	return err
}

// changed returns the slots to write, each with its stored form, or nil for a dropped slot.
func (s *Sums) changed() (changed [numSeries][]int64, values [numSeries][][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, series := range s.series {
		changed[i] = slices.Sorted(maps.Keys(series.dirty))
		for _, at := range changed[i] {
			var data []byte
			if doors := series.slots[at]; doors != nil {
				data = encodeSums(doors)
			}
			values[i] = append(values[i], data)
		}
		clear(series.dirty)
	}
	return changed, values
}

// Close writes the changes and closes the file. The sums must not be used afterwards.
func (s *Sums) Close() error {
	err := s.Write()
	s.writing.Lock()
	defer s.writing.Unlock()
	db := s.db
	if s.db = nil; db == nil {
		return err
	}
	return errors.Join(err, boltfile.Guard(db.Close))
}

// sumsVersion begins the stored form of a slot.
const sumsVersion = 1

// encodeSums returns the stored form of a slot: version, number of fields, doors, checksum.
func encodeSums(doors map[string]Sum) []byte {
	b := []byte{sumsVersion, byte(numFields)}
	for _, name := range slices.Sorted(maps.Keys(doors)) {
		sum := doors[name]
		b = appendText(b, name, maxName)
		for _, n := range sum.fields() {
			b = binary.AppendUvarint(b, *n)
		}
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeSums decodes the form that encodeSums returns.
func decodeSums(data []byte) (map[string]Sum, error) {
	if len(data) < 6 {
		return nil, errDamaged
	}
	body, sum := data[:len(data)-4], binary.LittleEndian.Uint32(data[len(data)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, errDamaged
	}
	return decodeSumsBody(body)
}

// decodeSumsBody is decodeSums without the checksum.
func decodeSumsBody(body []byte) (map[string]Sum, error) {
	if len(body) < 2 || body[0] != sumsVersion || int(body[1]) > numFields {
		return nil, errDamaged
	}
	doors := make(map[string]Sum)
	for r := (reader{rest: body[2:]}); len(r.rest) > 0; {
		name := r.text(maxName)
		var sum Sum
		all := sum.fields() // a slot of an earlier version has the first of them
		for _, n := range all[:body[1]] {
			*n = r.number(1<<64 - 1)
		}
		if _, twice := doors[name]; r.bad || twice || len(doors) >= maxSumDoors {
			return nil, errDamaged
		}
		doors[name] = sum
	}
	return doors, nil
}

// InspectSums reads a whole file of [Sums] and returns an error if it is damaged. It changes
// nothing, and does not read a file that a node has open.
func InspectSums(path string) error {
	return boltfile.Inspect(path, func(tx *bbolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(_, v []byte) error {
				_, err := decodeSums(v)
				return err
			})
		})
	})
}
