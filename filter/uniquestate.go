package filter

import (
	"fmt"
	"io"
	"iter"
)

// MaxRateKey is the largest number of bytes of a key in [UniqueRate.EncodeStates].
const MaxRateKey = 4096

// EncodeStates writes the states of many keys: the rule's ID (8 bytes), the
// size of a state (4), then for each key its length (4), its bytes and the
// state, and at the end the length 2^32-1. It fails, after having written a
// part, for an invalid state or a key longer than [MaxRateKey].
func (u *UniqueRate) EncodeStates(w io.Writer, states iter.Seq2[[]byte, []byte]) error {
	p := newPaperWriter(w, paperRateStates)
	p.uint64(u.ID())
	p.uint32(uint32(u.StateBytes()))
	for key, state := range states {
		if err := u.Validate(state); err != nil {
			return err
		}
		if len(key) > MaxRateKey {
			return fmt.Errorf("filter: rate key of %d bytes, want at most %d", len(key), MaxRateKey)
		}
		p.uint32(uint32(len(key)))
		p.bytes(key)
		p.bytes(state)
	}
	p.uint32(rateStatesEnd)
	return p.close()
}

const rateStatesEnd = 1<<32 - 1

// DecodeStates reads what [UniqueRate.EncodeStates] of an equal rule wrote, and
// calls put for each key; put owns both slices. It fails with [ErrCorrupt]
// before any allocation if the states are of another rule or size, and with
// [ErrTooLarge] when keys and states together exceed limit bytes. The checksum comes last: drop
// what was put if the result is an error.
func (u *UniqueRate) DecodeStates(r io.Reader, limit int64, put func(key, state []byte) error) error {
	p := newPaperReader(r, paperRateStates, limit)
	id, size := p.uint64(), p.uint32()
	switch {
	case p.err != nil:
	case size != uint32(u.StateBytes()):
		p.fail("states of %d bytes, want %d", size, u.StateBytes())
	case id != u.ID():
		p.fail("rate rule %#016x, want %#016x", id, u.ID())
	}
	for p.err == nil {
		n := p.uint32()
		if n == rateStatesEnd {
			break
		}
		if n > MaxRateKey {
			p.fail("rate key of %d bytes, want at most %d", n, MaxRateKey)
			break
		}
		key, state := p.bytes(uint64(n)), p.bytes(uint64(size))
		if p.err != nil {
			break
		}
		if err := u.Validate(state); err != nil {
			return fmt.Errorf("rate key %.40q: %w", key, err)
		}
		if err := put(key, state); err != nil {
			return err
		}
	}
	return p.close()
}
