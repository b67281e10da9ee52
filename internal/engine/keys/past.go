package keys

import (
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// MaxSecrets is how many secrets the live generations may have been made with. Each costs
// hashes and look-ups in every check.
const MaxSecrets = 3

// Secrets are the secrets that the live generations were made with, newest first, and their
// IDs. Everything new is counted with the first, the network's present one. The place of a
// secret is its epoch: 0 is the present. A Secrets never changes.
type Secrets struct {
	All []filter.Secret
	IDs []uint64
	// Shared is how many of them, from the first, all members of the network had: what
	// was counted under these is shared with them. 1 or more.
	Shared int
}

// NewSecrets returns the secrets of a network with its past ones, newest first. Of a secret
// that is named twice, the newer place counts.
func NewSecrets(present filter.Secret, past ...filter.Secret) *Secrets {
	s := &Secrets{Shared: 1}
	for _, x := range append([]filter.Secret{present}, past...) {
		if !slices.Contains(s.All, x) {
			s.All, s.IDs = append(s.All, x), append(s.IDs, x.ID())
		}
	}
	return s
}

// Check returns an error that wraps [bulkhead.ErrOverLimit] if there are more than
// [MaxSecrets]; keys cannot be made then.
func (s *Secrets) Check() error {
	if len(s.All) > MaxSecrets {
		return fmt.Errorf("%w: generations of %d secrets of the network live at once, limit %d", bulkhead.ErrOverLimit,
			len(s.All), MaxSecrets)
	}
	return nil
}

// Sharing returns the same secrets, of which the network itself had those of former before.
// What it shares ends where the first comes that is not among those.
func (s *Secrets) Sharing(former []filter.Secret) *Secrets {
	out := &Secrets{All: s.All, IDs: s.IDs, Shared: 1}
	for out.Shared < len(s.All) && slices.Contains(former, s.All[out.Shared]) {
		out.Shared++
	}
	return out
}

// Former returns the secrets that the network had before the present one, newest first.
func (s *Secrets) Former() []filter.Secret { return s.All[1:s.Shared] }

// Shares reports whether what was counted under the secret with an ID is shared.
func (s *Secrets) Shares(id uint64) bool { return slices.Contains(s.IDs[:s.Shared], id) }

// Present returns the secret with which everything new is counted.
func (s *Secrets) Present() filter.Secret { return s.All[0] }

// Knows reports whether one of the secrets has the ID.
func (s *Secrets) Knows(id uint64) bool { return slices.Contains(s.IDs, id) }

// Maker returns a maker of keys for one goroutine. Check must have returned nil.
func (s *Secrets) Maker() Maker {
	m := Maker{Secret: s.All[0]}
	if len(s.All) > 1 {
		m.Past = &Past{secrets: s.All[1:], was: make(map[filter.Key][MaxSecrets - 1]filter.Key)}
	}
	return m
}

// A Past knows what keys were under former secrets. Only one goroutine may use it.
type Past struct {
	secrets []filter.Secret
	was     map[filter.Key][MaxSecrets - 1]filter.Key
}

// note notes what k was in each epoch from 1 on, as made says, unless it is already noted.
func (p *Past) note(k filter.Key, made func(epoch int, s filter.Secret) filter.Key) {
	if _, known := p.was[k]; known {
		return
	}
	var was [MaxSecrets - 1]filter.Key
	for i, s := range p.secrets {
		was[i] = made(i+1, s)
	}
	p.was[k] = was
}

// At returns what a key is in an epoch, if the maker has made or adopted it. Any other key is
// returned as it is; former arrays hold it only by chance.
func (m Maker) At(epoch int, k filter.Key) filter.Key {
	if epoch == 0 || m.Past == nil {
		return k
	}
	if was, ok := m.Past.was[k]; ok {
		return was[epoch-1]
	}
	return k
}

// Adopt takes over what another maker, of the same secrets, has noted.
func (m Maker) Adopt(o *Past) {
	if m.Past == nil || o == nil {
		return
	}
	for k, was := range o.was {
		m.Past.was[k] = was
	}
}

// Forget drops what was noted. A table that has grown large is made anew: clearing it would
// take as long ever after, however few entries it had.
func (m Maker) Forget() {
	const large = 1 << 13
	switch {
	case m.Past == nil:
	case len(m.Past.was) > large:
		m.Past.was = make(map[filter.Key][MaxSecrets - 1]filter.Key)
	default:
		clear(m.Past.was)
	}
}
