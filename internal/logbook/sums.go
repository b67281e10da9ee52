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
)

// A Sum is what the clients of one door asked and reported.
type Sum struct {
	Verdicts [bulkhead.NumClasses]uint64 // answers to checks of messages, by class
	Looks    uint64                      // checks of single signatures, which have no class
	Votes    [bulkhead.NumVotes]uint64   // sightings and votes that were taken
}

// fields yields the numbers of a sum in the order of their stored form. New ones are
// appended.
func (s *Sum) fields() (all [numFields]*uint64) {
	out := all[:0]
	for i := range s.Verdicts {
		out = append(out, &s.Verdicts[i])
	}
	out = append(out, &s.Looks)
	for i := range s.Votes {
		out = append(out, &s.Votes[i])
	}
	return all
}

const numFields = int(bulkhead.NumClasses) + 1 + int(bulkhead.NumVotes)

// Add adds n to s.
func (s *Sum) Add(n *Sum) {
	to, from := s.fields(), n.fields()
	for i := range to {
		*to[i] += *from[i]
	}
}

// A Slot is the sums of a stretch of time, by door. What did nothing is not in it.
type Slot struct {
	Start time.Time
	Doors map[string]Sum
}

// Lengths of the slots that [Sums] keep: those of the last day, and those of the last month.
const (
	ShortSlot = 10 * time.Minute
	LongSlot  = time.Hour
	shortFor  = 24 * time.Hour
	longFor   = 30 * 24 * time.Hour
)

// maxSumDoors is how many doors a slot has sums of.
const maxSumDoors = 64

// A series is slots of one length, of which at most so many are kept.
type series struct {
	bucket []byte
	length time.Duration
	most   int
	slots  map[int64]map[string]Sum // by the second of their start
	dirty  map[int64]bool           // that are not on disk as they are, or have gone
}

func newSeries(bucket string, length, all time.Duration) *series {
	// One more than fit, since the oldest is over in part.
	return &series{[]byte(bucket), length, int(all/length) + 1, make(map[int64]map[string]Sum), make(map[int64]bool)}
}

// add adds what a door did to the slot of a time. Beyond the most slots, those farthest
// from now go: the oldest, or those that a clock which was wrong has left in the future.
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
	Failed  atomic.Int64 // times that they could not be written; what they are is tried again
	Damaged atomic.Int64 // slots, or whole files, that could not be read, and are lost
}

// Sums are how many checks had which answer, and how many votes were taken, of each door
// in the last 24 hours and 30 days, in a small file of their own: whatever became of the
// entries of a [Book]. They are held in memory, and written when Write is called. Methods
// may be called concurrently.
type Sums struct {
	Stats SumsStats

	path string
	log  *slog.Logger

	mu     sync.Mutex
	last   map[string]Sum // what the doors had counted when they were noted last
	series [2]*series

	writing sync.Mutex
	db      *bbolt.DB // nil: there is none at present
}

// OpenSums reads the sums in a file, which is created if necessary. A damaged file is
// renamed to path + ".damaged", and an empty one takes its place. If the file cannot be
// opened for another reason, the log says so, and each Write tries again. A nil log
// discards.
func OpenSums(path string, log *slog.Logger) *Sums {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Sums{path: path, log: log, last: make(map[string]Sum), series: [2]*series{
		newSeries("short", ShortSlot, shortFor), newSeries("long", LongSlot, longFor),
	}}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.open(); err != nil {
		log.Error("the numbers of verdicts are not kept: their file cannot be opened", "path", path, "err", err)
	}
	return s
}

// open opens the file and reads it, or an empty one in place of one that is damaged. writing
// is held.
func (s *Sums) open() error {
	err := s.openFile()
	if errors.Is(err, errDamagedFile) {
		if err = s.aside(err); err == nil {
			err = s.openFile()
		}
	}
	return err
}

func (s *Sums) openFile() error {
	var db *bbolt.DB
	found := [2]map[int64]map[string]Sum{make(map[int64]map[string]Sum), make(map[int64]map[string]Sum)}
	err := guarded(func() (err error) {
		if db, err = bbolt.Open(s.path, 0o600, &bbolt.Options{Timeout: time.Second}); err != nil {
			return damageOf(err)
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

// merge adds slots from disk to what was noted before they could be read.
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

// aside renames a damaged file and lets go of it, which stays mapped. All slots in memory
// are to be written again. writing is held.
func (s *Sums) aside(why error) error {
	s.db = nil
	s.Stats.Damaged.Add(1)
	err := os.Rename(s.path, s.path+".damaged")
	s.log.Error("the file of the numbers of verdicts was damaged, and is made anew", "path", s.path, "kept_as",
		s.path+".damaged", "why", why, "err", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, series := range s.series {
		for at := range series.slots {
			series.dirty[at] = true
		}
	}
	return err
}

// Note adds what the doors have counted since the last call. counted are their counters
// now, which began with s and only grow.
func (s *Sums) Note(now time.Time, counted map[string]Sum) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(counted)) {
		sum, before := counted[name], s.last[name]
		n := sum
		to, from, some := n.fields(), before.fields(), false
		for i := range to {
			*to[i] -= *from[i]
			some = some || *to[i] > 0
		}
		if !some {
			continue
		}
		s.last[name] = sum
		for _, series := range s.series {
			series.add(now, name, &n)
		}
	}
}

// Slots returns the slots that begin at or after since and before until, the oldest first, of
// one length: [ShortSlot], of the last day alone, [LongSlot] or a multiple of it. Those of a day
// begin at midnight UTC. Slots in which nothing happened are left out.
func (s *Sums) Slots(since, until time.Time, length time.Duration) []Slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := s.series[1]
	if length%LongSlot != 0 {
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

// Write writes what was noted since the last time. If that fails, it is counted and the next
// call tries again.
func (s *Sums) Write() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	err := s.write()
	if errors.Is(err, errDamagedFile) {
		if err = s.aside(err); err == nil {
			err = s.write()
		}
	}
	if err != nil {
		s.Stats.Failed.Add(1)
	}
	return err
}

// write writes the slots that have changed. writing is held.
func (s *Sums) write() error {
	if s.db == nil {
		if err := s.open(); err != nil {
			return err
		}
	}
	changed, values := s.changed()
	if len(changed[0])+len(changed[1]) == 0 {
		return nil
	}
	err := guarded(func() error {
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

// changed returns the slots that are to be written, with their stored form, nil for those
// that have gone.
func (s *Sums) changed() (changed [2][]int64, values [2][][]byte) {
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

// Close writes what was noted and closes the file. The sums must not be used after.
func (s *Sums) Close() error {
	err := s.Write()
	s.writing.Lock()
	defer s.writing.Unlock()
	db := s.db
	if s.db = nil; db == nil {
		return err
	}
	return errors.Join(err, guarded(db.Close))
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

// decodeSums reads what encodeSums has written.
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
	if len(body) < 2 || body[0] != sumsVersion || int(body[1]) != numFields {
		return nil, errDamaged
	}
	doors := make(map[string]Sum)
	for r := (reader{rest: body[2:]}); len(r.rest) > 0; {
		name := r.text(maxName)
		var sum Sum
		for _, n := range sum.fields() {
			*n = r.number(1<<64 - 1)
		}
		if _, twice := doors[name]; r.bad || twice || len(doors) >= maxSumDoors {
			return nil, errDamaged
		}
		doors[name] = sum
	}
	return doors, nil
}

// InspectSums reads a whole file of [Sums] and returns what is wrong with it, or nil. It
// changes nothing. A file that a node has open is not read.
func InspectSums(path string) error {
	return inspectFile(path, func(tx *bbolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(_, v []byte) error {
				_, err := decodeSums(v)
				return err
			})
		})
	})
}
