package trust

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/bulkhead-mail/bulkhead"
)

// A Book is the accounts of a node. Its methods may be called concurrently by readers. Changes come
// from the engine's single writer, which has made them durable before it calls [Book.Put],
// [Book.Remove] or [Book.Credit].
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

// Authenticate returns the open account that holds the given bearer token, or an error that wraps
// [bulkhead.ErrUnauthorised].
func (b *Book) Authenticate(token string) (Account, error) {
	hash := [tokenHashSize]byte(HashToken(token))
	b.mu.RLock()
	defer b.mu.RUnlock()
	// The map is keyed by a hash of the token, so its timing reveals nothing about any token to an
	// attacker.
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

// AnySealed reports whether any account has a secret of the protocol.
func (b *Book) AnySealed(protocol string) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, a := range b.byName {
		if len(a.Sealed[protocol]) > 0 {
			return true
		}
	}
	return false
}

// Len returns the number of accounts.
func (b *Book) Len() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.byName)
}

// Put adds or replaces an account, which must be valid. If another account holds the same token
// hash, Put changes nothing and returns an error that wraps [bulkhead.ErrMalformed].
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

// A Credit is the effect of others' votes on the record of an account. With neither Confirmed nor
// Reverted it records that the account itself voted.
type Credit struct {
	Account             string
	Confirmed, Reverted uint32 // reports
	Day                 uint32 // of the vote; see [Day]
	Network             uint32 // of the confirming reporter; see [Mark]
	By                  uint32 // weight of the confirming reporter, in hundredths
}

// Credit adds c to the record of its account, if there is one, and reverted reports also to the
// record of its parent. The counts stop at their largest value. Calls must come in the order of
// their days.
func (b *Book) Credit(c Credit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.changed(c.Account)
	if a == nil {
		return
	}
	a.Confirmed, a.Reverted = addSat(a.Confirmed, c.Confirmed), addSat(a.Reverted, c.Reverted)
	if c.Reverted > 0 {
		if parent := b.changed(a.Parent); parent != nil {
			parent.Reverted = addSat(parent.Reverted, c.Reverted)
		}
	}
	if c.Confirmed == 0 && c.Reverted == 0 {
		a.Active = max(a.Active, c.Day)
	}
	if c.Confirmed == 0 {
		return
	}
	// All confirmations of one day count as one: time cannot be bought.
	if c.Day > a.LastDay || a.Days == 0 {
		a.Days, a.LastDay = addSat(a.Days, 1), c.Day
	}
	if len(a.Networks) < maxNetworks && !slices.Contains(a.Networks, c.Network) {
		a.Networks = append(a.Networks, c.Network)
	}
	a.RaisedBy = max(a.RaisedBy, min(float64(c.By)/100, 1))
}

// changed returns the account called name in a copy that replaces it, or nil: a [Snapshot] keeps the
// account as it was. The caller holds the lock.
func (b *Book) changed(name string) *Account {
	a := b.byName[name]
	if a == nil {
		return nil
	}
	c := a.clone()
	b.byName[name] = &c
	return &c
}

func addSat(a, b uint32) uint32 {
	if s := a + b; s >= a {
		return s
	}
	return ^uint32(0)
}

// A Snapshot is all accounts of a book at one moment. It never changes.
type Snapshot []*Account

// Snapshot returns the accounts of the present moment. It copies none of them, so it is fast.
func (b *Book) Snapshot() Snapshot {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return slices.AppendSeq(make(Snapshot, 0, len(b.byName)), maps.Values(b.byName))
}

// Write writes the accounts as JSON, in the order of their names.
func (s Snapshot) Write(w io.Writer) error {
	compared := 0
	all := slices.SortedFunc(slices.Values(s), func(x, y *Account) int {
		if compared++; compared%1024 == 0 {
			runtime.Gosched() // reports come first: to sort 20,000 accounts takes 5 ms
		}
		return cmp.Compare(x.Name, y.Name)
	})
	out := bufio.NewWriter(w) // keeps its first error, which Flush returns
	enc := json.NewEncoder(out)
	_ = out.WriteByte('[')
	for i, a := range all {
		if i > 0 {
			_ = out.WriteByte(',')
		}
		if err := enc.Encode(a); err != nil {
			return err
		}
	}
	_ = out.WriteByte(']')
	return out.Flush()
}

// Encode returns what Write writes.
func (s Snapshot) Encode() ([]byte, error) {
	var out bytes.Buffer
	err := s.Write(&out)
	return out.Bytes(), err
}

// Decode replaces the accounts with those that [Snapshot.Write] wrote. On an error the book is
// unchanged.
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
	c.Networks = slices.Clone(a.Networks)
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
