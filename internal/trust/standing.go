package trust

import (
	"fmt"
	"strings"

	"github.com/bulkhead-mail/bulkhead"
)

// LocalPerson is the person of the node itself: of clients without an account on a
// loopback address, and of the accounts registered there that name no other person. So
// a mail server that reports over several protocols is one voice.
const LocalPerson = "local"

// A Standing is how a reporter's vote is treated.
type Standing struct {
	Weight float64 // 0..1
	// Voice names the voter: it is equal for all reporters that are one. Its form is
	// part of the data on disk, where it is hashed.
	Voice string
	// Voucher is empty for a reporter who is counted by itself. Otherwise the vote is
	// counted once for all reporters with the same Voucher, which is the network of
	// reporters for whom nobody vouches; see [Voucher].
	Voucher  string
	Confirms bool // its spam votes confirm those of others
	Known    bool // an account of the book
	// Root: an administrator gave the weight, it was not earned, or the reporter is on
	// the node itself. Without a root nothing is listed or delisted, see [Balance].
	Root bool
}

// provenDays is the number of days on which reports of an account must have been
// confirmed before it is a voice of its own, not one with all others of its network.
const provenDays = 3

// Standing returns how a vote of r is treated. Its error wraps
// [bulkhead.ErrUnauthorised] for an account that does not exist, [bulkhead.ErrForbidden]
// for one that is closed, may not vote or may not speak for others, and
// [bulkhead.ErrMalformed] for an invalid name of a user.
func (b *Book) Standing(r bulkhead.Reporter) (Standing, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	s, err := b.alone(r)
	if err != nil || r.User == "" {
		return s, err
	}
	return s.speaksFor(r)
}

// alone is Standing of a reporter who speaks for nobody else.
func (b *Book) alone(r bulkhead.Reporter) (Standing, error) {
	if r.Account == "" {
		return b.anonymous(r)
	}
	a, ok := b.byName[r.Account]
	if !ok {
		return Standing{}, fmt.Errorf("%w: no account %.*q", bulkhead.ErrUnauthorised, MaxName, r.Account)
	}
	if a.Closed {
		return Standing{}, fmt.Errorf("%w: account %q is closed", bulkhead.ErrForbidden, a.Name)
	}
	if a.Role == Anonymous {
		return Standing{}, fmt.Errorf("%w: account %q may not vote", bulkhead.ErrForbidden, a.Name)
	}
	s := Standing{Weight: b.weight(a), Voice: a.Voice(), Confirms: b.policy.Confirms(a), Known: true,
		Root: b.policy.root(a)}
	// An account that registered itself is one of as many as its maker wanted, until
	// its reports have been confirmed on some days.
	if a.Role == Member && a.Days < provenDays && a.From.IsValid() && !IsLocal(a.From) {
		s.Voucher = Voucher(a.From)
	}
	return s, nil
}

// speaksFor is the standing of the user whom r names: a voice of the weight of the
// service that names it.
func (s Standing) speaksFor(r bulkhead.Reporter) (Standing, error) {
	if err := CheckName(r.User); err != nil {
		return Standing{}, fmt.Errorf("user: %w", err)
	}
	if !s.Root || s.Known && !s.Confirms {
		return Standing{}, fmt.Errorf("%w: only this node's own services and trusted accounts may report for a user",
			bulkhead.ErrForbidden)
	}
	if s.Known {
		s.Voice = userVoice(s.Voice, r.User)
	} else {
		s.Voice = PersonVoice(r.User)
	}
	return s, nil
}

// The kinds of voice. No two voices of different kinds are equal, as no name of a
// person or account holds a colon.
const (
	accountVoice = "account:"
	personVoice  = "person:"
	addressVoice = "address:"
)

// PersonVoice returns the voice of a person, such as [LocalPerson] or a user on whose
// behalf a service of the node reports. A user of the trusted account SERVICE is the
// person SERVICE=USER.
func PersonVoice(name string) string { return personVoice + name }

// userVoice returns the voice of a user of the service with the given voice.
func userVoice(service, user string) string {
	return PersonVoice(strings.TrimPrefix(service, accountVoice) + "=" + user)
}

// UserVoice returns the voice of a user on whose behalf the account reports.
func (a *Account) UserVoice(user string) string { return userVoice(a.Voice(), user) }

// Voice returns the voice of the account.
func (a *Account) Voice() string {
	switch {
	case a.Person != "":
		return personVoice + a.Person
	case a.From.IsValid() && IsLocal(a.From):
		return personVoice + LocalPerson
	}
	return accountVoice + a.Name
}

// weight is [Policy.Of], limited by the weight of the parent who answers for a.
func (b *Book) weight(a *Account) float64 {
	w := b.policy.Of(a)
	if a.Parent == "" {
		return w
	}
	parent := b.byName[a.Parent]
	if parent == nil {
		return 0 // nobody answers for it any more
	}
	return min(w, b.policy.Of(parent))
}

// Worth returns the weight of a vote of the account called name at present, 0 if there
// is no such account.
func (b *Book) Worth(name string) float64 {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if a := b.byName[name]; a != nil {
		return b.weight(a)
	}
	return 0
}

// Door returns how a sighting of r is treated: a root's is counted as often as it says,
// all others once for each voice. Sightings have no weight, so that clients without an
// account may always report them; for accounts the errors are those of
// [Book.Standing].
func (b *Book) Door(r bulkhead.Reporter) (Standing, error) {
	if r.Account != "" {
		return b.Standing(r)
	}
	if IsLocal(r.Addr) {
		return Standing{Voice: personVoice + LocalPerson, Root: true}, nil
	}
	return Standing{Voice: addressVoice + r.Addr.Unmap().WithZone("").String(), Voucher: Voucher(r.Addr)}, nil
}

func (b *Book) anonymous(r bulkhead.Reporter) (Standing, error) {
	if IsLocal(r.Addr) {
		return Standing{Weight: b.policy.Loopback, Voice: personVoice + LocalPerson, Root: true}, nil
	}
	if b.policy.Anonymous == 0 {
		return Standing{}, fmt.Errorf("%w: anonymous clients may not vote here", bulkhead.ErrForbidden)
	}
	return Standing{
		Weight: b.policy.Anonymous, Voice: addressVoice + r.Addr.Unmap().WithZone("").String(), Voucher: Voucher(r.Addr),
	}, nil
}
