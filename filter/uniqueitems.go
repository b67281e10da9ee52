package filter

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
)

// A state holds, in little-endian order:
//
//	0  8  rate at the time of the last change, float64, in items a period
//	8  8  time of the last change, Unix nanoseconds; 0 for a new key
//	16 8  time of the first item, 0 while there is none; the top bit is set if
//	      the items are a Bloom filter
//	24 .  the items; nothing if the rate is Plain
//
// Items are a list of fingerprints, 5 bytes each, 0 for a free place, as long as that takes less
// than the Bloom filter, whose bit i is in byte i/8. A list of up to four has 20 bytes. A longer
// list begins with its number of fingerprints (4 bytes), and is a hash table with linear probing,
// at most three quarters full, so that an item takes 7 to 10 bytes.
type rateState []byte

const (
	printBytes = 5
	printBits  = 8 * printBytes
	few        = 4 // fingerprints in the shortest list
	fewBytes   = few * printBytes
	listHead   = 4
	bloomFlag  = 1 << 63
)

// A fingerprint is 40 bits of the keyed hash of an item, and is never 0.
type fingerprint uint64

func (u *UniqueRate) fingerprint(item []byte) fingerprint {
	if u.plain {
		return 0
	}
	return max(1, fingerprint(u.secret.Key(item).Hi>>(64-printBits)))
}

// position returns which of m bits the i-th hash function sets.
func (p fingerprint) position(i int, m uint64) uint64 { return Key{Hi: uint64(p)}.Position(i, m) }

func (s rateState) rate() float64  { return math.Float64frombits(binary.LittleEndian.Uint64(s[0:])) }
func (s rateState) changed() int64 { return int64(binary.LittleEndian.Uint64(s[8:])) }
func (s rateState) started() int64 { return int64(binary.LittleEndian.Uint64(s[16:]) &^ bloomFlag) }
func (s rateState) bloom() bool    { return binary.LittleEndian.Uint64(s[16:])&bloomFlag != 0 }

func (s rateState) set(rate float64, t int64) {
	binary.LittleEndian.PutUint64(s[0:], math.Float64bits(rate))
	binary.LittleEndian.PutUint64(s[8:], uint64(t))
}

func (s rateState) setStart(t int64) {
	binary.LittleEndian.PutUint64(s[16:], binary.LittleEndian.Uint64(s[16:])&bloomFlag|uint64(t))
}

// settle moves a state from the future back to now. The clock was ahead when it was written, and
// the rate must not stand still until that time has come.
func (s rateState) settle(now int64) {
	if s.changed() <= now {
		return
	}
	s.set(s.rate(), now)
	s.setStart(min(s.started(), now))
}

// forget drops all items and their storage.
func (s *rateState) forget() {
	*s = (*s)[:RateHeader+fewBytes]
	clear((*s)[16:])
}

// Forget drops the items of state and cuts it to [UniqueRate.StateBytes]. Its rate stays; items
// that come again are new. It does nothing to a state that Validate refuses.
func (u *UniqueRate) Forget(state *[]byte) {
	if u.Validate(*state) == nil && !u.plain {
		(*rateState)(state).forget()
	}
}

// short reports whether the items have the minimum room.
func (s rateState) short() bool { return len(s) == RateHeader+fewBytes }

// list returns the places of a list of fingerprints.
func (s rateState) list() []byte {
	if s.short() {
		return s[RateHeader:]
	}
	return s[RateHeader+listHead:]
}

func capacity(list []byte) int { return len(list) / printBytes }

func fingerprintAt(list []byte, i int) fingerprint {
	b := list[i*printBytes : i*printBytes+printBytes]
	return fingerprint(binary.LittleEndian.Uint32(b)) | fingerprint(b[4])<<32
}

// place returns the index of p in list, or where it is to be put; -1 if there is no free place.
func (p fingerprint) place(list []byte) (at int, found bool) {
	n := capacity(list)
	at = int(uint64(p) * uint64(n) >> printBits)
	for range n {
		switch fingerprintAt(list, at) {
		case p:
			return at, true
		case 0:
			return at, false
		}
		if at++; at == n {
			at = 0
		}
	}
	return -1, false
}

// put adds p to a list that has room.
func (p fingerprint) put(list []byte) {
	if at, _ := p.place(list); at >= 0 {
		b := list[at*printBytes : at*printBytes+printBytes]
		binary.LittleEndian.PutUint32(b, uint32(p))
		b[4] = byte(p >> 32)
	}
}

// listed returns how many fingerprints a list holds, and how many it may hold.
func (s rateState) listed() (n, room int) {
	if s.short() {
		return fingerprints(s.list()), few
	}
	return int(binary.LittleEndian.Uint32(s[RateHeader:])), capacity(s.list()) * 3 / 4
}

func fingerprints(list []byte) (n int) {
	for i := range capacity(list) {
		if fingerprintAt(list, i) != 0 {
			n++
		}
	}
	return n
}

func (u *UniqueRate) holds(s rateState, p fingerprint) bool {
	if !s.bloom() {
		_, found := p.place(s.list())
		return found
	}
	filter := s[RateHeader:]
	for i := range u.k {
		if pos := p.position(i, 8*uint64(len(filter))); filter[pos>>3]>>(pos&7)&1 == 0 {
			return false
		}
	}
	return true
}

func (u *UniqueRate) mark(filter []byte, p fingerprint) {
	for i := range u.k {
		pos := p.position(i, 8*uint64(len(filter)))
		filter[pos>>3] |= 1 << (pos & 7)
	}
}

// add adds an item that is not present.
func (u *UniqueRate) add(s *rateState, p fingerprint) {
	if !s.bloom() {
		if n, room := s.listed(); n >= room || u.whole <= fewBytes {
			u.enlarge(s)
		}
	}
	if s.bloom() {
		u.mark((*s)[RateHeader:], p)
		return
	}
	p.put(s.list())
	if !s.short() {
		s.setListed(1 + binary.LittleEndian.Uint32((*s)[RateHeader:]))
	}
}

func (s rateState) setListed(n uint32) { binary.LittleEndian.PutUint32(s[RateHeader:], n) }

// enlarge grows a list by half, or converts it into a Bloom filter if that is no larger.
func (u *UniqueRate) enlarge(s *rateState) {
	old := append([]byte(nil), s.list()...)
	size := listHead + printBytes*max(2*few, capacity(old)*3/2)
	bloom := u.whole <= size
	if bloom {
		size = u.whole
	}
	if RateHeader+size == len(*s) {
		clear((*s)[RateHeader:])
	} else {
		grown := make(rateState, RateHeader+size)
		copy(grown, (*s)[:RateHeader])
		*s = grown
	}
	if bloom {
		binary.LittleEndian.PutUint64((*s)[16:], binary.LittleEndian.Uint64((*s)[16:])|bloomFlag)
	} else {
		s.setListed(uint32(fingerprints(old)))
	}
	for i := range capacity(old) {
		switch p := fingerprintAt(old, i); {
		case p == 0:
		case bloom:
			u.mark((*s)[RateHeader:], p)
		default:
			p.put(s.list())
		}
	}
}

// Items returns how many different items state holds: their exact number while they are a list,
// else an estimate from the fill of the filter. It is 0 for a Plain rate.
func (u *UniqueRate) Items(state []byte) (float64, error) {
	if err := u.Validate(state); err != nil || u.plain {
		return 0, err
	}
	s := rateState(state)
	if !s.bloom() {
		n, _ := s.listed()
		return float64(n), nil
	}
	set := 0
	for _, b := range s[RateHeader:] {
		set += bits.OnesCount8(b)
	}
	m := float64(8 * (len(s) - RateHeader))
	return -m / float64(u.k) * math.Log1p(-math.Min(float64(set), m-0.5)/m), nil
}

// validList checks the length of a list against the number that it states.
func (s rateState) validList() error {
	if len(s) <= RateHeader+fewBytes || s.bloom() {
		return nil
	}
	body := len(s) - RateHeader
	if body%printBytes != listHead || body < listHead+fewBytes {
		return fmt.Errorf("%w: list of %d bytes", ErrCorrupt, body)
	}
	if n, room := s.listed(); n > room {
		return fmt.Errorf("%w: list of %d items in %d bytes", ErrCorrupt, n, body)
	}
	return nil
}

// validItems makes the checks that take too long for each event.
func (s rateState) validItems() error {
	if len(s) <= RateHeader+fewBytes || s.bloom() {
		return nil
	}
	if n, _ := s.listed(); n != fingerprints(s.list()) {
		return fmt.Errorf("%w: list says %d items and has %d", ErrCorrupt, n, fingerprints(s.list()))
	}
	return nil
}
