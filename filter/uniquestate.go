package filter

import (
	"fmt"
	"io"
	"iter"

	"github.com/bulkhead-mail/bulkhead/internal/codec"
)

// MaxRateKey is the maximum length of a key in [UniqueRate.EncodeStates], in bytes.
const MaxRateKey = 4096

// EncodeStates writes the states of many keys: the rule's ID (8 bytes), then for each key its
// length (4), its bytes, the length of the state (4) and the state, and at the end the length
// 2^32-1. It fails, possibly after writing a part, for an invalid state or a key longer than
// [MaxRateKey].
func (u *UniqueRate) EncodeStates(w io.Writer, states iter.Seq2[[]byte, []byte]) error {
	p := codec.NewWriter(w, codec.RateStates)
	p.Uint64(u.ID())
	for key, state := range states {
		if err := u.Validate(state); err != nil {
			return err
		}
		if len(key) > MaxRateKey {
			return fmt.Errorf("filter: rate key of %d bytes, want at most %d", len(key), MaxRateKey)
		}
		p.Uint32(uint32(len(key)))
		p.Bytes(key)
		p.Uint32(uint32(len(state)))
		p.Bytes(state)
	}
	p.Uint32(rateStatesEnd)
	return p.Close()
}

const rateStatesEnd = 1<<32 - 1

// DecodeStates reads the output of [UniqueRate.EncodeStates] of an equal rule, and calls put for
// each key; put owns both slices. It fails with [ErrCorrupt] before any allocation if the states
// belong to a different rule, and with [ErrTooLarge] when keys and states together exceed limit
// bytes. The checksum comes last: if the result is an error, discard everything passed to put.
func (u *UniqueRate) DecodeStates(r io.Reader, limit int64, put func(key, state []byte) error) error {
	p := codec.NewReader(r, codec.RateStates, limit)
	if id := p.Uint64(); p.Err == nil && id != u.ID() {
		p.Fail("rate rule %#016x, want %#016x", id, u.ID())
	}
	for p.Err == nil {
		n := p.Uint32()
		if n == rateStatesEnd {
			break
		}
		if n > MaxRateKey {
			p.Fail("rate key of %d bytes, want at most %d", n, MaxRateKey)
			break
		}
		key, size := p.Bytes(uint64(n)), p.Uint32()
		if size > RateHeader+MaxRateBytes {
			p.Fail("rate state of %d bytes, want at most %d", size, RateHeader+MaxRateBytes)
		}
		state := p.Bytes(uint64(size))
		if p.Err != nil {
			break
		}
		err := u.Validate(state)
		if err == nil {
			err = rateState(state).validItems()
		}
		if err != nil {
			return fmt.Errorf("rate key %.40q: %w", key, err)
		}
		if err := put(key, state); err != nil {
			return err
		}
	}
	return p.Close()
}
