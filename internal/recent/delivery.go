package recent

import (
	"container/list"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
)

// A Delivery is one message as the node saw it arrive.
type Delivery struct {
	Signatures []bulkhead.Signature // of the whole message, and of its sender or network
	MessageID  [16]byte             // keyed hash; zero for none
	Recipients []Mailbox
	Source     *bulkhead.Source // nil if only the signatures are known
	Seen       time.Time
}

// A Mailbox is the keyed hash of a mail address and the keyed hash of its local part. Users of some
// sites log in with the local part alone: then both are the same.
type Mailbox struct{ Address, Local uint64 }

// is reports whether two mailboxes can be the same: the address of both, or the local part where one
// of them has no domain.
func (m Mailbox) is(other Mailbox) bool {
	if m.Address == m.Local || other.Address == other.Local {
		return m.Local == other.Local
	}
	return m.Address == other.Address
}

// To reports whether a delivery went to a mailbox.
func (d *Delivery) To(voter Mailbox) bool {
	return voter != (Mailbox{}) && slices.ContainsFunc(d.Recipients, voter.is)
}

// A Wanted describes the delivery that a vote is about.
type Wanted struct {
	Signatures []bulkhead.Signature
	MessageID  [16]byte // keyed hash; zero for none
	Voter      Mailbox  // zero for a voter without a name
	// Own is set for a voter whom the administrator trusts. Votes of other voters are joined only with
	// deliveries of the same text.
	Own bool
}

// Deliveries remembers the sources of recent deliveries, so that a vote which carries only the
// message counts for the network, the senders and the links of its delivery. Its size is bounded in
// bytes and age. Its methods may be called concurrently.
type Deliveries struct {
	limit int64
	age   time.Duration
	now   func() time.Time
	seed  maphash.Seed // so that senders cannot make keys collide

	mu     sync.Mutex
	bytes  int64
	oldest *list.List             // of *delivery
	texts  map[uint64]*text       // by the signature that identifies the text
	near   map[uint64]*text       // by each signature of scheme Near: the latest text with it
	ids    map[uint64][]*delivery // by Message-ID, the oldest first
}

// A text is one text and its deliveries, the oldest first.
type text struct {
	identity   uint64
	near       []uint64
	deliveries []*delivery
}

type delivery struct {
	id         uint64 // of the Message-ID; 0 for none
	source     string // packed signatures of the sender, the network and the links
	recipients []Mailbox
	from       *bulkhead.Source
	seen       time.Time
	text       *text // nil for a message without an identity
	element    *list.Element
}

// Bytes of memory per delivery, mailbox and text, besides packed signatures and names. A key of the
// index of near texts takes nearBytes.
const (
	deliveryBytes = 320
	mailboxBytes  = 16
	textBytes     = 160
	nearBytes     = 48
)

// maxCopies is the largest number of deliveries of one text, or with one Message-ID.
const maxCopies = 1024

// NewDeliveries returns a memory of at most maxBytes. It forgets deliveries after age. now returns
// the time; nil means time.Now.
func NewDeliveries(maxBytes int64, age time.Duration, now func() time.Time) *Deliveries {
	if now == nil {
		now = time.Now
	}
	return &Deliveries{
		limit: maxBytes, age: age, now: now, seed: maphash.MakeSeed(), oldest: list.New(),
		texts: make(map[uint64]*text), near: make(map[uint64]*text), ids: make(map[uint64][]*delivery),
	}
}

// Size returns the number of deliveries and the bytes that they take.
func (d *Deliveries) Size() (deliveries int, bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.oldest.Len(), d.bytes
}

// Note remembers a delivery. It keeps no reference to its slices. Deliveries are noted in the order of
// their times.
func (d *Deliveries) Note(n *Delivery) {
	kept := &delivery{source: pack(sourceOf(n.Signatures)), recipients: slices.Clone(n.Recipients), seen: n.Seen}
	if kept.seen.IsZero() {
		kept.seen = d.now()
	}
	if n.Source != nil {
		s := *n.Source
		s.Subject, s.MessageID, s.DKIM, s.Features = "", "", slices.Clone(s.DKIM), nil
		kept.from = &s
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if n.MessageID != ([16]byte{}) {
		kept.id = maphash.Comparable(d.seed, n.MessageID)
		d.ids[kept.id] = append(d.ids[kept.id], kept)
	}
	if identity, ok := Identity(n.Signatures); ok {
		kept.text = d.textOf(maphash.Comparable(d.seed, identity), n.Signatures)
		kept.text.deliveries = append(kept.text.deliveries, kept)
	}
	kept.element = d.oldest.PushBack(kept)
	d.bytes += kept.bytes()
	if kept.text != nil && len(kept.text.deliveries) > maxCopies {
		d.drop(kept.text.deliveries[0])
	}
	if len(d.ids[kept.id]) > maxCopies {
		d.drop(d.ids[kept.id][0])
	}
	for first := d.oldest.Front(); first != nil; first = d.oldest.Front() {
		old := first.Value.(*delivery)
		if d.bytes <= d.limit && kept.seen.Sub(old.seen) < d.age {
			return
		}
		d.drop(old)
	}
}

// textOf returns the text with an identity. A new one is entered with its near signatures.
func (d *Deliveries) textOf(identity uint64, sigs []bulkhead.Signature) *text {
	t := d.texts[identity]
	if t != nil {
		return t
	}
	t = &text{identity: identity}
	for i := range sigs {
		if sigs[i].Scheme() == bulkhead.Near {
			key := maphash.Comparable(d.seed, sigs[i])
			t.near = append(t.near, key)
			d.near[key] = t
		}
	}
	d.texts[identity] = t
	d.bytes += t.bytes()
	return t
}

func (d *Deliveries) drop(old *delivery) {
	d.oldest.Remove(old.element)
	d.bytes -= old.bytes()
	if old.id != 0 {
		if d.ids[old.id] = without(d.ids[old.id], old); len(d.ids[old.id]) == 0 {
			delete(d.ids, old.id)
		}
	}
	t := old.text
	if t == nil {
		return
	}
	if t.deliveries = without(t.deliveries, old); len(t.deliveries) > 0 {
		return
	}
	delete(d.texts, t.identity)
	d.bytes -= t.bytes()
	for _, key := range t.near {
		if d.near[key] == t {
			delete(d.near, key)
		}
	}
}

func without(all []*delivery, one *delivery) []*delivery {
	if i := slices.Index(all, one); i >= 0 {
		return slices.Delete(all, i, i+1)
	}
	return all
}

func (d *delivery) bytes() int64 {
	n := deliveryBytes + len(d.source) + mailboxBytes*len(d.recipients)
	if s := d.from; s != nil {
		n += len(s.Sender) + len(s.ListID) + len(s.From) + len(s.ClaimedSender) + len(s.ClaimedListID)
		for _, name := range s.DKIM {
			n += len(name)
		}
	}
	return int64(n)
}

func (t *text) bytes() int64 { return textBytes + nearBytes*int64(len(t.near)) }

// Identity returns the signature that stands for what a message says: its whole text, or else its
// first file or picture.
func Identity(sigs []bulkhead.Signature) (bulkhead.Signature, bool) {
	for _, scheme := range []bulkhead.Scheme{bulkhead.Exact, bulkhead.Attachment, bulkhead.Image} {
		for i := range sigs {
			if sigs[i].Scheme() == scheme {
				return sigs[i], true
			}
		}
	}
	return bulkhead.Signature{}, false
}

// ofSource reports whether a scheme signs where a message came from or where it leads.
func ofSource(s bulkhead.Scheme) bool {
	return ofOrigin(s) || s == bulkhead.Link
}

// ofOrigin reports whether a scheme signs where a message came from.
func ofOrigin(s bulkhead.Scheme) bool { return s == bulkhead.Sender || s == bulkhead.Network }

func sourceOf(sigs []bulkhead.Signature) []bulkhead.Signature {
	var out []bulkhead.Signature
	for i := range sigs {
		if ofSource(sigs[i].Scheme()) {
			out = append(out, sigs[i])
		}
	}
	return out
}

// Find returns the delivery that a vote is about: a delivery of the same text to the voter, with the
// Message-ID of the vote if there is one; or else what all deliveries of the text have in common; or
// else the same of a text that is nearly the same; or else the delivery to the voter with the
// Message-ID. The result has the signatures of the sender or network and of the links. Its join is
// NotJoined if there is none.
//
// A Message-ID alone is not enough, because a sender can put any Message-ID into any number of
// messages.
func (d *Deliveries) Find(w *Wanted) (Delivery, bulkhead.Join) {
	d.mu.Lock()
	defer d.mu.Unlock()
	oldest := d.now().Add(-d.age)
	id := uint64(0)
	if w.MessageID != ([16]byte{}) {
		id = maphash.Comparable(d.seed, w.MessageID)
	}
	if identity, ok := Identity(w.Signatures); ok {
		if t := d.texts[maphash.Comparable(d.seed, identity)]; t != nil {
			if found, how := choose(t.deliveries, id, w.Voter, oldest); how != bulkhead.NotJoined {
				return found, how
			}
		}
	}
	if !w.Own {
		return Delivery{}, bulkhead.NotJoined
	}
	if t := d.nearest(w.Signatures); t != nil {
		if found, how := choose(t.deliveries, id, w.Voter, oldest); how != bulkhead.NotJoined {
			return found, bulkhead.JoinedByNear
		}
	}
	var to []*delivery
	for _, one := range d.ids[id] {
		if one.isTo(w.Voter) && one.seen.After(oldest) {
			to = append(to, one)
		}
	}
	if len(to) == 0 {
		return Delivery{}, bulkhead.NotJoined
	}
	return common(to), bulkhead.JoinedByID
}

// nearest returns the text that shares the most near signatures, nil if none shares half of its own.
// Two copies of a template share fewer, and a vote on one must not blame the sender of the other.
func (d *Deliveries) nearest(sigs []bulkhead.Signature) (best *text) {
	shared := make(map[*text]int)
	for i := range sigs {
		if sigs[i].Scheme() != bulkhead.Near {
			continue
		}
		t := d.near[maphash.Comparable(d.seed, sigs[i])]
		if t == nil {
			continue
		}
		if shared[t]++; 2*shared[t] >= len(t.near) && shared[t] > shared[best] {
			best = t
		}
	}
	return best
}

// choose returns the delivery of a text that a vote is about.
func choose(all []*delivery, id uint64, voter Mailbox, oldest time.Time) (Delivery, bulkhead.Join) {
	var alive, withID, to, toWithID []*delivery
	for _, one := range all {
		if !one.seen.After(oldest) {
			continue
		}
		alive = append(alive, one)
		has, mine := id != 0 && one.id == id, one.isTo(voter)
		if has {
			withID = append(withID, one)
		}
		if mine {
			to = append(to, one)
		}
		if has && mine {
			toWithID = append(toWithID, one)
		}
	}
	switch {
	case len(toWithID) > 0:
		return latest(toWithID), bulkhead.JoinedByID
	case len(to) > 0:
		return latest(to), bulkhead.JoinedByText
	case len(withID) > 0:
		return common(withID), bulkhead.JoinedByID
	case len(alive) > 0:
		return common(alive), bulkhead.JoinedByText
	}
	return Delivery{}, bulkhead.NotJoined
}

func (d *delivery) isTo(voter Mailbox) bool {
	return voter != (Mailbox{}) && slices.ContainsFunc(d.recipients, voter.is)
}

// latest returns the latest of several deliveries to one voter whose sender was verified, or else the
// latest whose network is known, or else the latest: one message may pass several doors, and not
// every door knows its source.
func latest(all []*delivery) Delivery {
	best, most := all[len(all)-1], -1
	for _, one := range slices.Backward(all) {
		known := 0
		for _, sig := range unpack(nil, one.source) {
			switch sig.Scheme() {
			case bulkhead.Sender:
				known = 2
			case bulkhead.Network:
				known = max(known, 1)
			}
		}
		if known > most {
			best, most = one, known
		}
	}
	return best.found()
}

// common returns what all of several deliveries share. Where their sources differ, none is blamed.
func common(all []*delivery) Delivery {
	out := all[len(all)-1].found()
	for _, one := range all {
		if one.source == all[len(all)-1].source {
			continue
		}
		out.Source = nil
		sigs := unpack(nil, one.source)
		out.Signatures = slices.DeleteFunc(out.Signatures, func(s bulkhead.Signature) bool {
			return !slices.Contains(sigs, s)
		})
	}
	return out
}

func (d *delivery) found() Delivery {
	return Delivery{Signatures: unpack(nil, d.source), Source: d.from, Recipients: d.recipients, Seen: d.seen}
}
