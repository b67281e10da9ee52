package keys

import (
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// MaxSecrets is how many secrets the generations that live may have been made with.
// Each takes hashes and look-ups of its own in every check.
const MaxSecrets = 3

// Secrets are those that the generations that live were made with, newest first, and
// their IDs: the first is the network's own, with which everything new is counted. They
// never change. The place of one is called its epoch: 0 is the present.
type Secrets struct {
	All []filter.Secret
	IDs []uint64
}

// NewSecrets returns the secrets of a network that had others before, newest first. One
// that is named twice is the newer of the two.
func NewSecrets(present filter.Secret, past ...filter.Secret) *Secrets {
	s := &Secrets{}
	for _, x := range append([]filter.Secret{present}, past...) {
		if !slices.Contains(s.All, x) {
			s.All, s.IDs = append(s.All, x), append(s.IDs, x.ID())
		}
	}
	return s
}

// Check returns an error that wraps [bulkhead.ErrOverLimit] if there are more than
// [MaxSecrets]: then no keys can be made.
func (s *Secrets) Check() error {
	if len(s.All) > MaxSecrets {
		return fmt.Errorf("%w: generations of %d secrets of the network live at once, limit %d", bulkhead.ErrOverLimit, len(s.All), MaxSecrets)
	}
	return nil
}

// Present returns the secret with which everything new is counted.
func (s *Secrets) Present() filter.Secret { return s.All[0] }

// Knows reports whether one of the secrets has the ID.
func (s *Secrets) Knows(id uint64) bool { return slices.Contains(s.IDs, id) }

// Maker returns a maker of keys, for one goroutine. Check has found the secrets right.
func (s *Secrets) Maker() Maker {
	m := Maker{Secret: s.All[0]}
	if len(s.All) > 1 {
		m.Past = &Past{secrets: s.All[1:], was: make(map[filter.Key][MaxSecrets - 1]filter.Key)}
	}
	return m
}

// A Past knows what keys were under the secrets before. One goroutine uses it.
type Past struct {
	secrets []filter.Secret
	was     map[filter.Key][MaxSecrets - 1]filter.Key
}

// note notes what k was, as made says for each epoch from 1 on, unless that is known.
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

// At returns what a key that the maker has made is in an epoch. One that it has not
// made, or that was adopted from nobody, is the same in all, which no array of the past
// holds but by chance.
func (m Maker) At(epoch int, k filter.Key) filter.Key {
	if epoch == 0 || m.Past == nil {
		return k
	}
	if was, ok := m.Past.was[k]; ok {
		return was[epoch-1]
	}
	return k
}

// Adopt takes over what the maker of other keys has noted, which is of the same secrets.
func (m Maker) Adopt(o *Past) {
	if m.Past == nil || o == nil {
		return
	}
	for k, was := range o.was {
		m.Past.was[k] = was
	}
}

// Forget empties what was noted. A table that has grown large is made anew: to clear it
// takes as long as it was large once.
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
