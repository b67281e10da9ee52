package trust

import (
	"fmt"
	"strings"

	"github.com/bulkhead-mail/bulkhead"
)

// LocalPerson is the person of the node itself. It owns clients without an account on a loopback
// address, and the accounts registered there that name no other person. A mail server that reports
// over several protocols is therefore one voice.
const LocalPerson = "local"

// A Standing determines how a reporter's vote is treated.
type Standing struct {
	Weight float64 // 0..1
	// Voice names the voter: it is equal for all reporters that are one voter. Its form is part of
	// the data on disk, where it is hashed.
	Voice string
	// Voucher is empty for a reporter that is counted individually. Otherwise the vote is counted
	// once for all reporters with the same Voucher, which is the network of reporters without
	// anyone vouching for them; see [Voucher].
	Voucher  string
	Confirms bool // its spam votes confirm the votes of others
	Known    bool // an account of the book
	// Root is set if an administrator gave the weight, so that it was not earned, or the reporter
	// is on the node itself. Without a root nothing is listed or delisted; see [Balance].
	Root bool
}

// provenDays is the number of days on which an account must have had reports confirmed before it is
// a voice of its own. Until then it shares one voice with others of its network.
const provenDays = 3

// Standing returns how a vote of r is treated. Its error wraps [bulkhead.ErrUnauthorised] for an
// account that does not exist, [bulkhead.ErrForbidden] for an account that is closed, may not vote
// or may not report for others, and [bulkhead.ErrMalformed] for an invalid user name.
func (b *Book) Standing(r bulkhead.Reporter) (Standing, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	s, err := b.alone(r)
	if err != nil || r.User == "" {
		return s, err
	}
	return s.speaksFor(r)
}

// alone is Standing for a reporter that reports only for itself.
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
	// An account that registered itself may be one of any number by the same maker, until its
	// reports have been confirmed on several days.
	if a.Role == Member && a.Days < provenDays && a.From.IsValid() && !IsLocal(a.From) {
		s.Voucher = Voucher(a.From)
	}
	return s, nil
}

// speaksFor returns the standing of the user that r names: a voice with the weight of the service
// that names it.
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

// The kinds of voice. No two voices of different kinds are equal, because names of persons and
// accounts contain no colon.
const (
	accountVoice = "account:"
	personVoice  = "person:"
	addressVoice = "address:"
)

// PersonVoice returns the voice of a person, such as [LocalPerson] or a user on whose behalf a
// service of the node reports. A user of the trusted account SERVICE is the person SERVICE=USER.
//
// A person has the mailbox that the name has in the form of [bulkhead.Mailbox]. Some services name the address to
// which a message went, of which senders choose capitals and extensions: one user would be as many voters.
func PersonVoice(name string) string { return personVoice + bulkhead.Mailbox(name) }

// userVoice returns the voice of a user of the service with the given voice.
func userVoice(service, user string) string {
	return personVoice + strings.TrimPrefix(service, accountVoice) + "=" + bulkhead.Mailbox(user)
}

// UserVoice returns the voice of a user on whose behalf the account reports.
func (a *Account) UserVoice(user string) string { return userVoice(a.Voice(), user) }

// Voice returns the voice of the account.
func (a *Account) Voice() string {
	switch {
	case a.Person != "":
		return PersonVoice(a.Person)
	case a.From.IsValid() && IsLocal(a.From):
		return personVoice + LocalPerson
	}
	return accountVoice + a.Name
}

// weight returns [Policy.Of], limited by the weight of the parent that answers for a.
func (b *Book) weight(a *Account) float64 {
	w := b.policy.Of(a)
	if a.Parent == "" {
		return w
	}
	parent := b.byName[a.Parent]
	if parent == nil {
		return 0 // the parent is gone, so no account answers for a
	}
	return min(w, b.policy.Of(parent))
}

// Worth returns the present weight of a vote of the account called name, 0 if there is no such
// account.
func (b *Book) Worth(name string) float64 {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if a := b.byName[name]; a != nil {
		return b.weight(a)
	}
	return 0
}

// Door returns how a sighting of r is treated: a root's sighting counts as often as the root
// states, all others count once for each voice. Sightings have no weight, so that clients without
// an account may always report them. For accounts the errors are the same as those of
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
