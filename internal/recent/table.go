package recent

import (
	"container/list"
	"hash/maphash"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// A Table is a [Memory] of bounded size. Messages of strangers take at most a quarter of it. Once a
// part is full, one share takes at most a quarter of that part, so a flood displaces messages of
// its own share.
//
// A message takes about 2 KB: its signatures once, 25 bytes each on average, and 200 bytes for each
// of its digests. Readers do not wait for each other.
type Table struct {
	age  time.Duration
	now  func() time.Time
	seed maphash.Seed // so that senders cannot make keys collide

	mu    sync.RWMutex
	byKey map[uint64]*entry
	halls [2]hall // for the node's own messages, and for messages of strangers
}

// A hall is the memory for one kind of space.
type hall struct {
	limit, bytes int64
	all          *list.List            // of *entry, the oldest first
	shares       map[string]*list.List // by share, the oldest first
}

// An entry is one remembered digest.
type entry struct {
	key     uint64
	set     *set
	seen    time.Time
	share   string
	hall    *hall
	inHall  *list.Element
	inShare *list.Element
}

// A set holds packed signatures; several digests of a message share one. It is immutable.
type set struct {
	packed string
	refs   int // number of entries that hold it
}

// Bytes of memory besides the packed signatures.
const (
	entryBytes = 200
	setBytes   = 64
)

// NewTable returns a table of at most maxBytes. It forgets messages that were not seen for age. now
// returns the time; nil means time.Now.
func NewTable(maxBytes int64, age time.Duration, now func() time.Time) *Table {
	if now == nil {
		now = time.Now
	}
	t := &Table{age: age, now: now, seed: maphash.MakeSeed(), byKey: make(map[uint64]*entry)}
	for i, limit := range []int64{maxBytes - maxBytes/4, maxBytes / 4} { // see Table
		t.halls[i] = hall{limit: limit, all: list.New(), shares: make(map[string]*list.List)}
	}
	return t
}

// Size returns the number of digests in the table, and the bytes that they take.
func (t *Table) Size() (digests int, bytes int64) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.byKey), t.halls[0].bytes + t.halls[1].bytes
}

// key returns the key of a digest in a space. Two digests collide with the probability that 64
// random bits are equal.
func (t *Table) key(sig *bulkhead.Signature, space Space) uint64 {
	var h maphash.Hash
	h.SetSeed(t.seed)
	h.WriteByte(byte(sig.Scheme()))
	h.Write(sig.Sum())
	h.WriteByte(0)
	h.WriteString(string(space))
	return h.Sum64()
}

// maxMessage is the number of signatures that are remembered of a message.
const maxMessage = 512

// Note implements [Memory].
func (t *Table) Note(message []bulkhead.Signature, space Space, from string) {
	t.note(message, space, from, t.now())
}

// Recall is Note for a message that was seen at an earlier time. Messages must be recalled in the
// order of their times, before any is noted.
func (t *Table) Recall(message []bulkhead.Signature, space Space, share string, seen time.Time) {
	t.note(message, space, share, seen)
}

func (t *Table) note(message []bulkhead.Signature, space Space, from string, now time.Time) {
	if len(message) > maxMessage {
		return
	}
	h := &t.halls[0]
	if space != "" {
		h, from = &t.halls[1], string(space)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	fresh, it := &set{packed: pack(message)}, &contents{sigs: message}
	digests(message, func(sig *bulkhead.Signature) {
		k := t.key(sig, space)
		if e := t.byKey[k]; e != nil && t.alive(e, now) {
			t.meet(e, it, fresh, now)
			return
		} else if e != nil {
			t.drop(e)
		}
		t.enter(&entry{key: k, seen: now, share: from, hall: h}, fresh)
	})
	t.makeRoom(h, from, now)
}

// meet restricts an entry to the signatures that its messages share with another message.
func (t *Table) meet(e *entry, it *contents, fresh *set, now time.Time) {
	e.seen = now
	e.hall.all.MoveToBack(e.inHall)
	e.hall.shares[e.share].MoveToBack(e.inShare)
	if e.set.packed == fresh.packed {
		return
	}
	both := pack(it.common(unpack(nil, e.set.packed)))
	if both == e.set.packed {
		return
	}
	s := fresh
	if both != fresh.packed {
		s = &set{packed: both}
	}
	t.hold(e, s)
}

// hold replaces the set of an entry and updates the reference counts.
func (t *Table) hold(e *entry, s *set) {
	if s.refs++; s.refs == 1 {
		e.hall.bytes += s.bytes()
	}
	if e.set != nil {
		e.release()
	}
	e.set = s
}

// release drops the reference of an entry to its set.
func (e *entry) release() {
	if e.set.refs--; e.set.refs == 0 {
		e.hall.bytes -= e.set.bytes()
	}
}

func (s *set) bytes() int64 { return setBytes + int64(len(s.packed)) }

func (t *Table) enter(e *entry, s *set) {
	if e.hall.shares[e.share] == nil {
		e.hall.shares[e.share] = list.New()
	}
	e.inHall, e.inShare = e.hall.all.PushBack(e), e.hall.shares[e.share].PushBack(e)
	e.hall.bytes += entryBytes
	t.byKey[e.key] = e
	t.hold(e, s)
}

func (t *Table) drop(e *entry) {
	e.release()
	e.hall.bytes -= entryBytes
	e.hall.all.Remove(e.inHall)
	own := e.hall.shares[e.share]
	if own.Remove(e.inShare); own.Len() == 0 {
		delete(e.hall.shares, e.share)
	}
	delete(t.byKey, e.key)
}

// makeRoom drops entries that are too old. In a full hall it also drops the oldest entries: of the
// share that has just exceeded its part, or else of all shares.
func (t *Table) makeRoom(h *hall, from string, now time.Time) {
	for e := h.oldest(); e != nil && (!t.alive(e, now) || h.bytes > h.limit); e = h.oldest() {
		if own := h.shares[from]; t.alive(e, now) && own != nil && own.Len() > h.all.Len()/shareOf {
			e = own.Front().Value.(*entry)
		}
		t.drop(e)
	}
}

// shareOf is the reciprocal of the fraction of a full hall that one share may take.
const shareOf = 4

func (h *hall) oldest() *entry {
	if front := h.all.Front(); front != nil {
		return front.Value.(*entry)
	}
	return nil
}

func (t *Table) alive(e *entry, now time.Time) bool { return now.Sub(e.seen) < t.age }

// Common implements [Memory].
func (t *Table) Common(dst []bulkhead.Signature, digest *bulkhead.Signature, space Space) []bulkhead.Signature {
	k, now := t.key(digest, space), t.now()
	t.mu.RLock()
	e := t.byKey[k]
	packed := ""
	if e != nil && t.alive(e, now) {
		packed = e.set.packed
	}
	t.mu.RUnlock()
	return unpack(dst, packed)
}

// pack encodes signatures in sequence: scheme, length, sum. Packed sets never leave the process, so
// the numbers of schemes may change between versions.
func pack(sigs []bulkhead.Signature) string {
	n := 0
	for i := range sigs {
		n += 2 + len(sigs[i].Sum())
	}
	b := make([]byte, 0, n)
	for i := range sigs {
		sum := sigs[i].Sum()
		b = append(append(b, byte(sigs[i].Scheme()), byte(len(sum))), sum...)
	}
	return string(b)
}

// unpack appends decoded signatures to dst.
func unpack(dst []bulkhead.Signature, packed string) []bulkhead.Signature {
	for len(packed) > 0 {
		end := 2 + int(packed[1])
		dst = append(dst, bulkhead.MustSignature(bulkhead.Scheme(packed[0]), []byte(packed[2:end])))
		packed = packed[end:]
	}
	return dst
}
