package trust

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/bulkhead-mail/bulkhead"
)

// A Book is the accounts of a node. Readers may call its methods
// concurrently; changes come from the engine's one writer, which has made them
// durable before it calls [Book.Put], [Book.Remove] or [Book.Credit].
type Book struct {
	mu     sync.RWMutex
	byName map[string]*Account
	byHash map[[tokenHashSize]byte]string
	policy Policy
}

// NewBook returns a book without accounts. The policy must be valid.
func NewBook(p Policy) *Book {
	return &Book{byName: make(map[string]*Account), byHash: make(map[[tokenHashSize]byte]string), policy: p}
}

// Policy returns the policy in force.
func (b *Book) Policy() Policy {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.policy
}

// SetPolicy replaces the policy, which must be valid.
func (b *Book) SetPolicy(p Policy) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.policy = p
}

// Get returns a copy of the account called name.
func (b *Book) Get(name string) (Account, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	a, ok := b.byName[name]
	if !ok {
		return Account{}, false
	}
	return a.clone(), true
}

// Authenticate returns the open account that holds the given bearer token, or
// an error that wraps [bulkhead.ErrUnauthorised].
func (b *Book) Authenticate(token string) (Account, error) {
	hash := [tokenHashSize]byte(HashToken(token))
	b.mu.RLock()
	defer b.mu.RUnlock()
	// The map is keyed by a hash of the token, so its timing tells an attacker
	// nothing of any token.
	a, ok := b.byName[b.byHash[hash]]
	if !ok || a.Closed {
		return Account{}, fmt.Errorf("%w: unknown token", bulkhead.ErrUnauthorised)
	}
	return a.clone(), nil
}

// All returns a copy of every account, in the order of their names.
func (b *Book) All() []Account {
	b.mu.RLock()
	defer b.mu.RUnlock()
	all := make([]Account, 0, len(b.byName))
	for _, a := range b.byName {
		all = append(all, a.clone())
	}
	slices.SortFunc(all, func(x, y Account) int { return cmp.Compare(x.Name, y.Name) })
	return all
}

// Members returns the names of the open accounts whose weight is earned.
func (b *Book) Members() []string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var names []string
	for name, a := range b.byName {
		if a.Role == Member && !a.Closed {
			names = append(names, name)
		}
	}
	return names
}

// Len returns the number of accounts.
func (b *Book) Len() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.byName)
}

// A Standing is how a reporter's vote is treated.
type Standing struct {
	Weight float64 // 0..1
	// Voucher is empty for a reporter who is counted by itself. Otherwise the
	// vote is counted once for all reporters with the same Voucher: the network
	// of reporters for whom nobody vouches.
	Voucher  string
	Confirms bool // its spam votes confirm those of others
	Known    bool // an account of the book
	// Root: the weight was given by the administrator and not earned. The reporter
	// is vouched for, or on the node itself. Without a root nothing is listed or
	// taken off, see [Balance].
	Root bool
}

// Standing returns how a vote of r is treated, or an error that wraps
// [bulkhead.ErrUnauthorised] for an account that does not exist and
// [bulkhead.ErrForbidden] for one that is closed or may not vote.
func (b *Book) Standing(r bulkhead.Reporter) (Standing, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
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
	s := Standing{Weight: b.policy.Of(a), Confirms: b.policy.Confirms(a), Known: true, Root: b.policy.root(a)}
	// An account that registered itself is one of however many its maker
	// wanted, until reports of its own were confirmed.
	if a.Role == Member && a.Confirmed == 0 && a.From.IsValid() && !IsLocal(a.From) {
		s.Voucher = Network(a.From).String()
	}
	return s, nil
}

// Door returns how a sighting of r is treated: a root's is counted as often as it
// says, of all others one for each voice. Sightings weigh nothing, so that clients
// without an account may always report them; the errors are those of
// [Book.Standing] for accounts.
func (b *Book) Door(r bulkhead.Reporter) (Standing, error) {
	if r.Account != "" {
		return b.Standing(r)
	}
	if IsLocal(r.Addr) {
		return Standing{Root: true}, nil
	}
	return Standing{Voucher: Network(r.Addr).String()}, nil
}

func (b *Book) anonymous(r bulkhead.Reporter) (Standing, error) {
	if IsLocal(r.Addr) {
		return Standing{Weight: b.policy.Loopback, Root: true}, nil
	}
	if b.policy.Anonymous == 0 {
		return Standing{}, fmt.Errorf("%w: anonymous clients may not vote here", bulkhead.ErrForbidden)
	}
	return Standing{Weight: b.policy.Anonymous, Voucher: Network(r.Addr).String()}, nil
}

// Put adds or replaces an account. The account must be valid; a token hash
// that another account holds is an error that wraps [bulkhead.ErrMalformed],
// and changes nothing.
func (b *Book) Put(a Account) error {
	if err := a.Validate(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.admits(&a); err != nil {
		return err
	}
	b.remove(a.Name)
	c := a.clone()
	b.byName[a.Name] = &c
	if len(a.TokenHash) > 0 {
		b.byHash[[tokenHashSize]byte(a.TokenHash)] = a.Name
	}
	return nil
}

// Remove removes the account called name, if there is one.
func (b *Book) Remove(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(name)
}

func (b *Book) remove(name string) {
	if a := b.byName[name]; a != nil {
		if len(a.TokenHash) > 0 {
			delete(b.byHash, [tokenHashSize]byte(a.TokenHash))
		}
		delete(b.byName, name)
	}
}

// Credit adds to the confirmed and reverted reports of the account called
// name, if there is one. The counts stop at their largest value.
func (b *Book) Credit(name string, confirmed, reverted uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.byName[name]; a != nil {
		a.Confirmed = addSat(a.Confirmed, confirmed)
		a.Reverted = addSat(a.Reverted, reverted)
	}
}

func addSat(a, b uint32) uint32 {
	if s := a + b; s >= a {
		return s
	}
	return ^uint32(0)
}

// Encode returns every account as JSON, in the order of their names.
func (b *Book) Encode() ([]byte, error) { return json.Marshal(b.All()) }

// Decode replaces the accounts with those that Encode wrote. On an error the
// book is as it was.
func (b *Book) Decode(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var all []Account
	if err := dec.Decode(&all); err != nil {
		return fmt.Errorf("trust: accounts: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("trust: accounts: %w: bytes after the end", bulkhead.ErrMalformed)
	}
	fresh := NewBook(b.Policy())
	for _, a := range all {
		if _, ok := fresh.byName[a.Name]; ok {
			return fmt.Errorf("trust: accounts: %w: account %q twice", bulkhead.ErrMalformed, a.Name)
		}
		if err := fresh.Put(a); err != nil {
			return fmt.Errorf("trust: accounts: %w", err)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.byName, b.byHash = fresh.byName, fresh.byHash
	return nil
}

func (a *Account) clone() Account {
	c := *a
	c.TokenHash = bytes.Clone(a.TokenHash)
	if a.Sealed != nil {
		c.Sealed = make(map[string][]byte, len(a.Sealed))
		for k, v := range a.Sealed {
			c.Sealed[k] = bytes.Clone(v)
		}
	}
	return c
}

// Admits returns the error with which Put would refuse a, or nil.
func (b *Book) Admits(a Account) error {
	if err := a.Validate(); err != nil {
		return err
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.admits(&a)
}

func (b *Book) admits(a *Account) error {
	if len(a.TokenHash) > 0 {
		if owner, ok := b.byHash[[tokenHashSize]byte(a.TokenHash)]; ok && owner != a.Name {
			return fmt.Errorf("%w: account %q: another account holds this token", bulkhead.ErrMalformed, a.Name)
		}
	}
	return nil
}
