package logbook

import (
	"cmp"
	"container/list"
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/top"
)

// Limits of the waves held in memory: about 20 MB when all limits are reached.
const (
	maxWaves   = 1024 // with more than one entry
	maxSingles = 4096 // entries that may become waves
	maxKeys    = 64   // of a wave
	maxTally   = 16   // names of each kind that a wave counts
	waveSlots  = 64   // of a growth curve, an even number
)

// followed is the number of entries read at a time while other callers wait for the waves.
const followed = 1024

// newest is the number of latest entries that are read first after a start. Reading all of a
// million entries takes minutes.
const newest = 20_000

// A Wave is a group of messages with the same or nearly the same text: each shares the signature of
// a whole text with an earlier one, or enough bands of bulkhead/near. The numbers count entries
// since the wave's first entry, for as long as the node remembers the wave.
type Wave struct {
	ID          uint64 // of its first entry
	First, Last time.Time
	Messages    uint64                      // checks, and recipients of sightings without a check
	Votes       [numKinds]uint64            // by kind, without checks and sightings
	Classes     [bulkhead.NumClasses]uint64 // answers to the checks
	Class       bulkhead.Class              // the latest answer
	Confidence  int                         // confidence of that answer, 0 to 100
	Entry       uint64                      // ID of the latest entry with the most signatures
	Slot        time.Duration               // of Growth
	Growth      []uint64                    // messages in each slot from First to Last
	Doors       []top.Item
	Senders     []top.Item // domains
	Domains     []top.Item // of links
	Reporters   []top.Item // voters, named as in Entry
	Posts       uint64     // checks and sightings of messages that carry a List-Id
	Others      uint64     // checks and sightings of other messages
}

// Post reports whether a wave is made of a mailing list's posts, which may be different texts that share a
// footer: every message has a List-Id, and none was called spam or suspected, or reported. A List-Id can
// be forged, so it hides spam only until then.
func (w *Wave) Post() bool {
	return w.Posts > 0 && w.Others == 0 && w.Votes[CalledSpam] == 0 &&
		w.Classes[bulkhead.ClassSpam]+w.Classes[bulkhead.ClassSuspected] == 0
}

// Recent returns how many messages of a wave came at or after a time, to the length of a slot.
func (w *Wave) Recent(since time.Time) (n uint64) {
	for i, k := range w.Growth {
		if end := w.First.Add(time.Duration(i+1) * w.Slot); end.After(since) {
			n += k
		}
	}
	return n
}

// Waves holds the waves of a book, and how far it was read for them.
type Waves struct {
	Waves []Wave
	Upto  time.Time // time of the latest entry read; zero: none
	Whole bool      // all entries of the book were read
	Since time.Time // time of the oldest entry read, if only the latest entries were; else zero
}

// waves groups the entries of a book. It reads them in order after they were written, so that no
// door waits for it.
type waves struct {
	seed   maphash.Seed
	near   int
	common map[string]bool // packed signatures that unrelated texts share

	mu      sync.Mutex
	since   uint64 // ID of the first entry to read; 0: read all
	next    uint64 // lowest ID not read yet
	whole   bool
	keys    map[uint64]*wave
	groups  list.List // of *wave, the one with the latest entry last
	singles list.List // of *wave with one entry, in the same order
}

// A wave is a Wave under construction.
type wave struct {
	Wave
	keys      []uint64
	place     *list.Element
	single    *Entry // the only entry, without its signatures
	whole     int    // number of keys of the message of Entry
	doors     *top.Table
	senders   *top.Table
	domains   *top.Table
	reporters *top.Table
}

func newWaves(o *Options) *waves {
	w := &waves{seed: maphash.MakeSeed(), near: o.Near, common: make(map[string]bool), keys: make(map[uint64]*wave)}
	for i := range o.Common {
		w.common[string(appendPacked(nil, &o.Common[i]))] = true
	}
	return w
}

// Waves returns the waves whose last entry is not too old, the largest first. It reads the entries
// written since the last call, for at most patience. After a start the waves are made of the latest
// entries alone, until [Book.Run] has read all.
func (b *Book) Waves(ctx context.Context, patience time.Duration) (Waves, error) {
	w, err := b.follow(ctx, patience)
	if err != nil {
		return Waves{}, err
	}
	return w.snapshot(b.cutoff()), nil
}

// Wave returns one wave, by its own ID or the ID of any of its entries that is still in the book.
// It first reads new entries as [Book.Waves] does. ok is false if there is no such wave.
func (b *Book) Wave(ctx context.Context, patience time.Duration, id uint64) (found Wave, ok bool, err error) {
	w, err := b.follow(ctx, patience)
	if err != nil {
		return found, false, err
	}
	if g, ok := w.group(id); ok {
		return g, true, nil
	}
	e, ok, err := b.Get(id)
	if err != nil || !ok {
		return found, false, err
	}
	found, ok = w.groupOf(&e)
	return found, ok, nil
}

// group returns the wave with an ID.
func (w *waves) group(id uint64) (found Wave, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for e := w.groups.Front(); e != nil; e = e.Next() {
		if g := e.Value.(*wave); g.ID == id {
			return g.shown(), true
		}
	}
	return found, false
}

// groupOf returns the wave that an entry belongs to.
func (w *waves) groupOf(e *Entry) (found Wave, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := w.find(w.keysOf(e))
	if g == nil || g.single != nil {
		return found, false
	}
	return g.shown(), true
}

// follow writes the queued entries, and then reads entries until all are read, for at most
// patience. It returns the waves to show.
func (b *Book) follow(ctx context.Context, patience time.Duration) (*waves, error) {
	b.Flush()
	w := b.early.Load()
	if w == nil {
		w = b.waves
	}
	begun := time.Now()
	for {
		unread, err := b.followOnce(w)
		if err != nil || !unread || time.Since(begun) >= patience {
			return w, err
		}
		if err := ctx.Err(); err != nil {
			return w, err
		}
	}
}

// beginEarly makes waves of the latest entries if the book has many older ones.
func (b *Book) beginEarly() error {
	if b.State().Entries <= int64(b.newest) {
		return nil
	}
	w := newWaves(&b.o)
	err := b.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket(rowsBucket).Cursor()
		k, _ := c.Last()
		for n := 1; k != nil && n < b.newest; n++ {
			w.since = idOf(k)
			k, _ = c.Prev()
		}
		return nil
	})
	if w.next = w.since; err == nil {
		b.early.Store(w)
	}
	return err
}

// followOnce reads a batch of entries. It returns true if there may be further entries.
func (b *Book) followOnce(w *waves) (unread bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, last := 0, max(w.next, b.cutoff())-1
	err = b.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket(rowsBucket).Cursor()
		for k, v := c.Seek(keyOf(last + 1)); k != nil && n < followed; k, v = c.Next() {
			n, last = n+1, idOf(k)
			if e, err := decode(last, v); err == nil {
				w.add(&e)
			}
		}
		return nil
	})
	if n > 0 {
		w.next = last + 1
	}
	w.whole = err == nil && n < followed
	return err == nil && !w.whole, err
}

// followAll reads entries as they are written, until ctx ends. After each batch it rests for as
// long as the batch took, so that reading a long history at the start leaves time on the processor.
func (b *Book) followAll(ctx context.Context) {
	if err := b.beginEarly(); err != nil {
		b.o.Log.Warn("latest waves cannot be read first", "err", err,
			"consequence", "they show once all waves have been read")
	}
	for {
		begun := time.Now()
		unread, err := b.followStep()
		rest := time.Since(begun)
		if err != nil || !unread {
			rest = b.o.Every
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(rest):
		}
	}
}

// followStep reads a batch of entries, and adds it to the waves of the latest entries while these
// exist, and else to the waves of all entries.
func (b *Book) followStep() (unread bool, err error) {
	if early := b.early.Load(); early != nil {
		if unread, err = b.followOnce(early); unread || err != nil {
			return unread, err
		}
	}
	if unread, err = b.followOnce(b.waves); err == nil && !unread {
		b.early.Store(nil)
	}
	return unread, err
}

// add puts an entry into the wave that it belongs to, or begins a new wave with it.
func (w *waves) add(e *Entry) {
	keys, texts := w.keysOf(e)
	e.packed = nil
	if len(keys) == 0 {
		return
	}
	g := w.find(keys, texts)
	if g == nil {
		g = &wave{Wave: Wave{ID: e.ID, First: e.Time(), Last: e.Time()}, single: e}
		g.place = w.singles.PushBack(g)
		w.own(g, keys)
		g.represent(e, len(keys))
		w.trim(&w.singles, maxSingles)
		return
	}
	if g.single != nil {
		w.singles.Remove(g.place)
		g.place = w.groups.PushBack(g)
		g.begin()
		w.trim(&w.groups, maxWaves)
	}
	w.groups.MoveToBack(g.place)
	w.own(g, keys)
	g.represent(e, len(keys))
	g.count(e)
}

// Text returns the signatures that identify the whole text of a message exactly: the bulkhead/exact
// signature, or without one the clients' digests.
func Text(sigs []bulkhead.Signature) (all []bulkhead.Signature) {
	for _, s := range sigs {
		switch s.Scheme() {
		case bulkhead.Exact:
			return []bulkhead.Signature{s}
		case bulkhead.PyzorDigest, bulkhead.RazorE4, bulkhead.RspamdText, bulkhead.DCCBody:
			all = append(all, s)
		}
	}
	return all
}

// keysOf returns the keys by which copies of a message are recognised: first the keys of the whole
// text, whose number is texts, then the keys of its bands.
func (w *waves) keysOf(e *Entry) (keys []uint64, texts int) {
	var bands []uint64
	for one := range packedOnes(e.packed) {
		switch codes[one[0]] {
		case bulkhead.Exact, bulkhead.PyzorDigest, bulkhead.RazorE4, bulkhead.RspamdText, bulkhead.DCCBody, bulkhead.DCCFuz1,
			bulkhead.DCCFuz2:
			if !w.common[string(one)] {
				keys = append(keys, maphash.Bytes(w.seed, one))
			}
		case bulkhead.Near:
			bands = append(bands, maphash.Bytes(w.seed, one))
		}
	}
	return append(keys, bands...), len(keys)
}

// find returns the wave that a message belongs to, or nil. It is the wave that shares the most keys
// with the message, if these include a key of the whole text or are enough bands. The oldest of
// several such waves wins.
func (w *waves) find(keys []uint64, texts int) (best *wave) {
	shared := make(map[*wave]int)
	for i, k := range keys {
		switch g := w.keys[k]; {
		case g == nil:
		case i < texts:
			shared[g] += maxKeys * w.near // more than all bands together
		default:
			shared[g]++
		}
	}
	for g, n := range shared {
		if n >= w.near && (best == nil || n > shared[best] || n == shared[best] && g.ID < best.ID) {
			best = g
		}
	}
	return best
}

// own gives a wave the keys that no wave has yet, up to maxKeys.
func (w *waves) own(g *wave, keys []uint64) {
	for _, k := range keys {
		if len(g.keys) < maxKeys && w.keys[k] == nil {
			w.keys[k] = g
			g.keys = append(g.keys, k)
		}
	}
}

// trim forgets the waves with the oldest last entries.
func (w *waves) trim(of *list.List, most int) {
	for of.Len() > most {
		g := of.Remove(of.Front()).(*wave)
		for _, k := range g.keys {
			delete(w.keys, k)
		}
	}
}

// begin makes a wave of a single entry.
func (g *wave) begin() {
	g.Slot, g.Growth = time.Minute, make([]uint64, waveSlots)
	g.doors, g.senders, g.domains, g.reporters = top.New(maxTally), top.New(maxTally), top.New(maxTally), top.New(maxTally)
	first := g.single
	g.single = nil
	g.count(first)
}

// represent makes an entry the representative of the wave, unless it has fewer keys than the
// present one.
func (g *wave) represent(e *Entry, keys int) {
	if keys >= g.whole {
		g.Entry, g.whole = e.ID, keys
	}
}

// count adds an entry to the numbers.
func (g *wave) count(e *Entry) {
	at := e.Time()
	g.Last = at
	g.doors.Add(e.Door, 1)
	if e.From != "" {
		g.senders.Add(e.From, 1)
	}
	for _, d := range e.Domains {
		g.domains.Add(d, 1)
	}
	switch _, vote := e.Kind.Vote(); {
	case e.Kind != Sighted && vote:
	case e.Post:
		g.Posts++
	default:
		g.Others++
	}
	n := uint64(0)
	switch e.Kind {
	case Checked:
		n = 1
		g.Classes[e.Class]++
		g.Class, g.Confidence = e.Class, e.Confidence
	case Sighted:
		n = uint64(e.Count)
	default:
		g.Votes[e.Kind]++
		g.reporters.Add(cmp.Or(e.User, e.Account, e.Network, "this machine"), 1)
	}
	g.Messages += n
	i := int(at.Sub(g.First) / g.Slot)
	for ; i >= waveSlots; i = int(at.Sub(g.First) / g.Slot) {
		for j := range waveSlots / 2 {
			g.Growth[j] = g.Growth[2*j] + g.Growth[2*j+1]
		}
		clear(g.Growth[waveSlots/2:])
		g.Slot *= 2
	}
	g.Growth[max(0, i)] += n
}

// snapshot returns the waves whose last entry has at least the ID cutoff.
func (w *waves) snapshot(cutoff uint64) Waves {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := Waves{Whole: w.whole && w.since == 0, Since: timeOf(w.since)}
	if w.next > 1 {
		out.Upto = timeOf(w.next - 1)
	}
	for e := w.groups.Back(); e != nil; e = e.Prev() {
		if g := e.Value.(*wave); uint64(g.Last.UnixMicro()) >= cutoff {
			out.Waves = append(out.Waves, g.shown())
		}
	}
	slices.SortStableFunc(out.Waves, func(a, b Wave) int { return cmp.Compare(b.Messages, a.Messages) })
	return out
}

// shown returns the exported form of a wave.
func (g *wave) shown() Wave {
	s := g.Wave
	s.Growth = slices.Clone(g.Growth[:min(waveSlots, int(g.Last.Sub(g.First)/g.Slot)+1)])
	s.Doors, s.Senders, s.Domains, s.Reporters = g.doors.Items(maxTally), g.senders.Items(maxTally),
		g.domains.Items(maxTally), g.reporters.Items(maxTally)
	return s
}
