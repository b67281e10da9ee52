package logbook

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/bulkhead-mail/bulkhead"
)

// Numbers of entries on a page.
const (
	DefaultPage = 50
	MaxPage     = 500
)

// A page ends after this number of entries was read, or of blocks was tested, whatever was found.
// That bounds the time of a search.
const (
	maxRead  = 20_000
	maxAsked = 40_000
)

// A Query selects entries. An empty field does not restrict the selection.
type Query struct {
	Since, Until time.Time // from Since to before Until
	Door         string
	Kind         *Kind
	Class        *bulkhead.Class // class of the answer to a check
	Reporter     string          // account, user, or network, as in Entry
	Domain       string          // domain of the sender or of a link, or a parent domain
	From         string          // domain of the sender, or a parent domain
	Link         string          // domain of a link, or a parent domain
	Message      MessageID
	Signature    *bulkhead.Signature
	Outcome      Outcome
	Before       uint64 // entries with smaller IDs: the Next of a page
	Limit        int    // number of entries, 1 to MaxPage; 0 means DefaultPage
}

// An Outcome is what became of a message or a vote, for a [Query].
type Outcome uint8

// The outcomes.
const (
	Any        Outcome = iota // every entry
	Caught                    // checks answered with spam or suspected
	Reported                  // votes of people, and not of spam traps, that a message is spam
	Complained                // votes that a message is wanted, or is to be taken off the blocklist
	numOutcomes
)

// outcomeNames holds the names of the outcomes in the HTTP interface.
var outcomeNames = [numOutcomes]string{"", "caught", "reported", "complained"}

// String returns the name of an outcome in the HTTP interface.
func (o Outcome) String() string {
	if o < numOutcomes {
		return outcomeNames[o]
	}
	return "invalid"
}

// ParseOutcome returns the outcome of a name; "" means Any. Its error wraps [bulkhead.ErrMalformed].
func ParseOutcome(name string) (Outcome, error) {
	if i := slices.Index(outcomeNames[:], name); i >= 0 {
		return Outcome(i), nil
	}
	return 0, fmt.Errorf("%w: outcome %.40q, want caught, reported or complained", bulkhead.ErrMalformed, name)
}

// has reports whether an entry has the outcome.
func (o Outcome) has(e *Entry) bool {
	switch o {
	case Caught:
		return e.Kind == Checked && (e.Class == bulkhead.ClassSpam || e.Class == bulkhead.ClassSuspected)
	case Reported:
		return e.Kind == CalledSpam && !e.Trap
	case Complained:
		return e.Kind == CalledHam || e.Kind == Withdrawn
	}
	return true
}

// terms returns terms of which every entry with the outcome has one; none: the outcome restricts nothing.
func (o Outcome) terms() []uint64 {
	switch o {
	case Caught:
		return []uint64{term(classTerm, []byte{byte(bulkhead.ClassSpam)}),
			term(classTerm, []byte{byte(bulkhead.ClassSuspected)})}
	case Reported:
		return []uint64{term(kindTerm, []byte{byte(CalledSpam)})}
	case Complained:
		return []uint64{term(kindTerm, []byte{byte(CalledHam)}), term(kindTerm, []byte{byte(Withdrawn)})}
	}
	return nil
}

// A Page is a page of entries, the latest first.
type Page struct {
	Entries []Entry
	Next    uint64 // Before of the next page; 0: there is none
	Read    int    // number of entries that the search read
}

// Search returns a page of written entries. If the search takes long, the page may have fewer
// entries than the limit, or none, and a Next from which to continue.
func (b *Book) Search(ctx context.Context, q Query) (Page, error) {
	b.Flush()
	s := b.newSearch(ctx, q)
	err := b.view(s.run)
	return s.page, err
}

// Get returns the entry with an ID; ok is false if there is none.
func (b *Book) Get(id uint64) (e Entry, ok bool, err error) {
	if id < b.cutoff() {
		return e, false, nil
	}
	b.Flush()
	err = b.view(func(tx *bbolt.Tx) error {
		if data := tx.Bucket(rowsBucket).Get(keyOf(id)); data != nil {
			var err error
			if e, err = decode(id, data); err == nil {
				e.packed, ok = slices.Clone(e.packed), true
			}
		}
		return nil
	})
	return e, ok, err
}

// Latest calls visit with up to n of the latest entries, the oldest of them first. An entry is
// valid until visit returns.
func (b *Book) Latest(n int, visit func(e *Entry)) error {
	return b.view(func(tx *bbolt.Tx) error {
		rows := tx.Bucket(rowsBucket)
		c := rows.Cursor()
		first := uint64(0)
		for k, _ := c.Last(); k != nil && n > 0; k, _ = c.Prev() {
			first = idOf(k)
			n--
		}
		for k, v := c.Seek(keyOf(max(first, b.cutoff()))); k != nil; k, v = c.Next() {
			e, err := decode(idOf(k), v)
			if err != nil {
				b.Stats.Damaged.Add(1)
				continue
			}
			visit(&e)
		}
		return nil
	})
}

// A search builds one page.
type search struct {
	Query
	ctx       context.Context
	book      *Book
	low, high uint64 // IDs, both included
	terms     []uint64
	any       []uint64 // terms of which a matching entry has one; none: no such restriction
	one       []byte   // Signature, packed
	page      Page
	asked     int
}

func (b *Book) newSearch(ctx context.Context, q Query) *search {
	s := &search{Query: q, ctx: ctx, book: b, low: b.cutoff(), high: math.MaxUint64 - 1}
	if s.Limit <= 0 {
		s.Limit = DefaultPage
	}
	s.Limit = min(s.Limit, MaxPage)
	s.Domain, s.From, s.Link = domainOf(q.Domain), domainOf(q.From), domainOf(q.Link)
	if !q.Since.IsZero() {
		s.low = max(s.low, uint64(max(0, q.Since.UnixMicro())))
	}
	if !q.Until.IsZero() {
		s.high = uint64(max(1, q.Until.UnixMicro())) - 1
	}
	if q.Before != 0 {
		s.high = min(s.high, q.Before-1)
	}
	s.setTerms()
	return s
}

func (s *search) setTerms() {
	s.any = s.Outcome.terms()
	add := func(kind byte, value []byte) { s.terms = append(s.terms, term(kind, value)) }
	if s.Door != "" {
		add(doorTerm, []byte(s.Door))
	}
	if s.Kind != nil {
		add(kindTerm, []byte{byte(*s.Kind)})
	}
	if s.Class != nil {
		add(classTerm, []byte{byte(*s.Class)})
	}
	if s.Reporter != "" {
		add(reporterTerm, []byte(s.Reporter))
	}
	for _, name := range []string{s.Domain, s.From, s.Link} {
		if name != "" {
			add(domainTerm, []byte(name))
		}
	}
	if s.Message != (MessageID{}) {
		add(messageTerm, s.Message[:])
	}
	if s.Signature != nil {
		s.one = appendPacked(nil, s.Signature)
		add(signatureTerm, s.one)
	}
}

// run searches the entries that are in no block, and then the blocks, the latest first.
func (s *search) run(tx *bbolt.Tx) error {
	rows, blocks := tx.Bucket(rowsBucket), tx.Bucket(blocksBucket)
	if s.low > s.high || !s.scan(rows, max(s.low, lastSealed(tx)+1), s.high) {
		return s.ctx.Err()
	}
	c := blocks.Cursor()
	var k, v []byte
	if next, _ := c.Seek(keyOf(s.high + 1)); next == nil {
		k, v = c.Last()
	} else {
		k, v = c.Prev()
	}
	for ; k != nil; k, v = c.Prev() {
		b, err := readBlock(k, v)
		if err != nil {
			return err
		}
		if b.last < s.low {
			return nil
		}
		if s.asked++; s.asked > maxAsked {
			s.page.Next = min(b.last, s.high) + 1
			return nil
		}
		if b.holds(s.terms) && b.holdsAny(s.any) && !s.scan(rows, max(s.low, b.first), min(s.high, b.last)) {
			return s.ctx.Err()
		}
	}
	return nil
}

// scan reads the entries from ID high down to low. It returns false if the page ends there.
func (s *search) scan(rows *bbolt.Bucket, low, high uint64) bool {
	if low > high {
		return true
	}
	c := rows.Cursor()
	k, v := c.Seek(keyOf(high))
	if k == nil {
		k, v = c.Last()
	} else if idOf(k) > high {
		k, v = c.Prev()
	}
	for ; k != nil && idOf(k) >= low; k, v = c.Prev() {
		if len(s.page.Entries) >= s.Limit || s.page.Read >= maxRead || s.page.Read%1024 == 1023 && s.ctx.Err() != nil {
			s.page.Next = idOf(k) + 1
			return false
		}
		s.page.Read++
		e, err := decode(idOf(k), v)
		if err != nil {
			s.book.Stats.Damaged.Add(1)
			continue
		}
		if s.matches(&e) {
			e.packed = bytes.Clone(e.packed)
			s.page.Entries = append(s.page.Entries, e)
		}
	}
	return true
}

// matches reports whether an entry matches the query.
func (s *search) matches(e *Entry) bool {
	return (s.Door == "" || s.Door == e.Door) &&
		(s.Kind == nil || *s.Kind == e.Kind) &&
		(s.Class == nil || e.Kind == Checked && *s.Class == e.Class) &&
		(s.Reporter == "" || s.Reporter == e.Account || s.Reporter == e.User || s.Reporter == e.Network) &&
		(s.Domain == "" || below(e.From, s.Domain) || e.links(s.Domain)) &&
		(s.From == "" || below(e.From, s.From)) && (s.Link == "" || e.links(s.Link)) &&
		(s.Message == MessageID{} || s.Message == e.Message) &&
		(s.Signature == nil || e.has(s.one)) && s.Outcome.has(e)
}

// links reports whether a link of an entry leads to a domain or below it.
func (e *Entry) links(domain string) bool {
	return slices.ContainsFunc(e.Domains, func(d string) bool { return below(d, domain) })
}

// below reports whether a name is a domain or a subdomain of it. A domain of one label matches only
// itself.
func below(name, domain string) bool {
	return name == domain || strings.Contains(domain, ".") && strings.HasSuffix(name, "."+domain)
}
