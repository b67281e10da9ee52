package dcc

import (
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"time"
)

// Defaults of a [Greylist], those of DCC.
const (
	DefaultEmbargo     = 270 * time.Second
	DefaultGreyWindow  = 7 * 24 * time.Hour
	DefaultGreyWhite   = 63 * 24 * time.Hour
	DefaultGreyEntries = 1 << 20
)

// A Greylist delays mail from unknown senders. The first message from an address and a
// sender to a recipient (the triple) is embargoed. If it is sent again after the embargo
// and within the window, the triple passes, and keeps passing as long as mail comes now
// and then. Its methods may be called concurrently. Memory is bounded: 32 bytes and a
// map's overhead for each of at most Entries triples; beyond that, embargoes are
// forgotten first.
//
// Source: docs/specs/dcc.md#greylisting.
type Greylist struct {
	// Embargo is how long a new triple waits, Window how long it may take to be sent
	// again, and White how long a triple that passed is remembered after its last mail.
	// 0 means the defaults.
	Embargo, Window, White time.Duration
	Entries                int // 0 means DefaultGreyEntries

	mu      sync.Mutex
	triples map[[md5.Size]byte]greyEntry
}

type greyEntry struct {
	first, last uint32 // seconds since 1970
	passed      bool
}

// A GreyAnswer is the answer of a greylist for a triple.
type GreyAnswer uint8

// The answers.
const (
	GreyEmbargo GreyAnswer = iota // not yet
	GreyEnded                     // for the first time: the embargo just ended
	GreyPass                      // known
)

// GreyTriple returns the checksum of an address, a sender and a recipient.
func GreyTriple(ip, sender, recipient [md5.Size]byte) [md5.Size]byte {
	var b [3 * md5.Size]byte
	copy(b[:], ip[:])
	copy(b[md5.Size:], sender[:])
	copy(b[2*md5.Size:], recipient[:])
	return md5.Sum(b[:])
}

func orDefault[T int | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}

// Ask returns the answer to a triple, and remembers that it came unless query
// is set.
func (g *Greylist) Ask(triple [md5.Size]byte, now time.Time, query bool) GreyAnswer {
	embargo := orDefault(g.Embargo, DefaultEmbargo)
	t := uint32(now.Unix())
	g.mu.Lock()
	defer g.mu.Unlock()
	e, ok := g.triples[triple]
	// An embargo that begins in the future was set by a wrong clock: it begins now.
	if ok && (g.expired(e, t) || !e.passed && e.first > t) {
		ok = false
	}
	answer := GreyEmbargo
	switch age := time.Duration(t-e.first) * time.Second; {
	case !ok:
		e = greyEntry{first: t}
	case e.passed:
		answer = GreyPass
	case age >= embargo:
		e.passed, answer = true, GreyEnded
	}
	if query {
		return answer
	}
	e.last = t
	if g.triples == nil {
		g.triples = make(map[[md5.Size]byte]greyEntry)
	}
	if !ok && len(g.triples) >= orDefault(g.Entries, DefaultGreyEntries) {
		g.makeRoom(t)
	}
	g.triples[triple] = e
	return answer
}

func (g *Greylist) expired(e greyEntry, t uint32) bool {
	keep, since := orDefault(g.Window, DefaultGreyWindow), e.first
	if e.passed {
		keep, since = orDefault(g.White, DefaultGreyWhite), e.last
	}
	return t >= since && time.Duration(t-since)*time.Second >= keep
}

// makeRoom looks at a few entries and drops the expired ones, or else an embargo, or else any
// entry. The caller holds mu.
func (g *Greylist) makeRoom(t uint32) {
	const look = 64
	n, dropped := 0, false
	var victim [md5.Size]byte
	haveEmbargo := false
	for k, e := range g.triples {
		if g.expired(e, t) {
			delete(g.triples, k)
			dropped = true
		} else if n == 0 || !e.passed && !haveEmbargo {
			victim, haveEmbargo = k, !e.passed
		}
		if n++; n == look {
			break
		}
	}
	if !dropped {
		delete(g.triples, victim)
	}
}

// Layout of a saved greylist: magic, number of entries, entries of 25 bytes,
// CRC-32C of all before.
const (
	greyMagic = "bulkhead grey 1\n"
	greySize  = md5.Size + 9
	greyFrame = 8 // the number and the sum
)

// Save writes the greylist.
func (g *Greylist) Save(w io.Writer) error {
	g.mu.Lock()
	b := append(make([]byte, 0, len(greyMagic)+greyFrame+len(g.triples)*greySize), greyMagic...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(g.triples)))
	for k, e := range g.triples {
		b = append(b, k[:]...)
		b = binary.BigEndian.AppendUint32(b, e.first)
		b = binary.BigEndian.AppendUint32(b, e.last)
		passed := byte(0)
		if e.passed {
			passed = 1
		}
		b = append(b, passed)
	}
	g.mu.Unlock()
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("dcc: save greylist: %w", err)
	}
	return nil
}

// Load replaces the greylist with a saved one. If it fails, the greylist stays as it
// was; the error wraps bulkhead.ErrMalformed if the file is damaged.
func (g *Greylist) Load(r io.Reader) error {
	limit := int64(len(greyMagic) + 8 + orDefault(g.Entries, DefaultGreyEntries)*greySize)
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return fmt.Errorf("dcc: load greylist: %w", err)
	}
	head := len(greyMagic) + 4
	if int64(len(b)) > limit || len(b) < head+4 || string(b[:len(greyMagic)]) != greyMagic {
		return malformed("saved greylist of %d bytes", len(b))
	}
	end := len(b) - 4
	if binary.BigEndian.Uint32(b[end:]) != crc32.Checksum(b[:end], crc32.MakeTable(crc32.Castagnoli)) {
		return malformed("saved greylist: checksum is wrong")
	}
	n := int(binary.BigEndian.Uint32(b[len(greyMagic):]))
	if n*greySize != end-head {
		return malformed("saved greylist: %d entries in %d bytes", n, end-head)
	}
	triples := make(map[[md5.Size]byte]greyEntry, n)
	for e := b[head:end]; len(e) > 0; e = e[greySize:] {
		triples[[md5.Size]byte(e)] = greyEntry{
			first: binary.BigEndian.Uint32(e[16:]), last: binary.BigEndian.Uint32(e[20:]), passed: e[24] == 1,
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.triples = triples
	return nil
}
