package keys

import (
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// MaxSecrets is the maximum number of secrets that live generations with counts may have been made
// with. Each one costs hashes in every check.
const MaxSecrets = 8

// maxHeld is one more: during a change of the secret, an empty generation may still have the former
// one.
const maxHeld = MaxSecrets + 1

// Secrets are the secrets that the live generations were made with, newest first, and their IDs.
// The first is the network's present secret; everything new is counted with it. The index of a
// secret is its epoch, so epoch 0 is the present. A Secrets never changes.
type Secrets struct {
	All []filter.Secret
	IDs []uint64
	// Shared is the number of secrets, from the first on, that all members of the network had.
	// Counts under these secrets are shared with the members. 1 or more.
	Shared int
}

// NewSecrets returns the secrets of a network with its past ones, newest first. If a secret is
// given twice, its newer place counts.
func NewSecrets(present filter.Secret, past ...filter.Secret) *Secrets {
	s := &Secrets{Shared: 1}
	for _, x := range append([]filter.Secret{present}, past...) {
		if !slices.Contains(s.All, x) {
			s.All, s.IDs = append(s.All, x), append(s.IDs, x.ID())
		}
	}
	return s
}

// Check returns an error that wraps [bulkhead.ErrOverLimit] if there are too many secrets to make keys
// with.
func (s *Secrets) Check() error {
	if len(s.All) > maxHeld {
		return TooMany(len(s.All))
	}
	return nil
}

// TooMany returns the error for n secrets at once. It wraps [bulkhead.ErrOverLimit].
func TooMany(n int) error {
	return fmt.Errorf("%w: generations of %d secrets of the network live at once, limit %d", bulkhead.ErrOverLimit, n,
		MaxSecrets)
}

// Sharing returns the same secrets with Shared set. former holds the secrets that the network
// itself had before. Sharing ends before the first past secret that is not in former.
func (s *Secrets) Sharing(former []filter.Secret) *Secrets {
	out := &Secrets{All: s.All, IDs: s.IDs, Shared: 1}
	for out.Shared < len(s.All) && slices.Contains(former, s.All[out.Shared]) {
		out.Shared++
	}
	return out
}

// Former returns the secrets that the network had before the present one, newest first.
func (s *Secrets) Former() []filter.Secret { return s.All[1:s.Shared] }

// Shares reports whether counts under the secret with an ID are shared.
func (s *Secrets) Shares(id uint64) bool { return slices.Contains(s.IDs[:s.Shared], id) }

// Present returns the secret with which everything new is counted.
func (s *Secrets) Present() filter.Secret { return s.All[0] }

// Knows reports whether one of the secrets has the ID.
func (s *Secrets) Knows(id uint64) bool { return slices.Contains(s.IDs, id) }

// Maker returns a maker of keys for one goroutine. Check must have returned nil.
func (s *Secrets) Maker() Maker {
	m := Maker{Secret: s.All[0]}
	if len(s.All) > 1 {
		m.Past = &Past{secrets: s.All[1:], was: make(map[filter.Key][maxHeld - 1]filter.Key)}
	}
	return m
}

// A Past maps keys to their forms under former secrets. Only one goroutine may use it.
type Past struct {
	secrets []filter.Secret
	was     map[filter.Key][maxHeld - 1]filter.Key
}

// note records the form of k in each epoch from 1 on, which made returns, unless it is already
// known.
func (p *Past) note(k filter.Key, made func(epoch int, s filter.Secret) filter.Key) {
	if _, known := p.was[k]; known {
		return
	}
	var was [maxHeld - 1]filter.Key
	for i, s := range p.secrets {
		was[i] = made(i+1, s)
	}
	p.was[k] = was
}

// At returns the form of a key in an epoch, if the maker has made or adopted the key. It returns
// any other key unchanged, and every key for an epoch below 0; former arrays hold such a key only by chance.
func (m Maker) At(epoch int, k filter.Key) filter.Key {
	if epoch <= 0 || m.Past == nil {
		return k
	}
	if was, ok := m.Past.was[k]; ok {
		return was[epoch-1]
	}
	return k
}

// Adopt copies the forms that another maker of the same secrets has recorded.
func (m Maker) Adopt(o *Past) {
	if m.Past == nil || o == nil {
		return
	}
	for k, was := range o.was {
		m.Past.was[k] = was
	}
}

// Forget drops all recorded forms. It replaces a table that has grown large: clearing one takes as
// long as its largest size did, however few entries it has now.
func (m Maker) Forget() {
	const large = 1 << 13
	switch {
	case m.Past == nil:
	case len(m.Past.was) > large:
		m.Past.was = make(map[filter.Key][maxHeld - 1]filter.Key)
	default:
		clear(m.Past.was)
	}
}
