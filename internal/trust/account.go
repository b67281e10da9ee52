package trust

import (
	"fmt"
	"math"
	"net/netip"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead"
)

// A Role says what an account may do. Each role may do all that the ones
// before it may.
type Role string

// The roles, in ascending order.
const (
	Anonymous Role = "anonymous" // checks; reports as the policy allows
	Member    Role = "reporter"  // reports with a weight that it earns
	Trusted   Role = "trusted"   // reports with the weight an administrator gave it
	Admin     Role = "admin"     // manages accounts and the node
)

// ParseRole returns the role called name, or an error that wraps
// [bulkhead.ErrMalformed].
func ParseRole(name string) (Role, error) {
	switch r := Role(name); r {
	case Anonymous, Member, Trusted, Admin:
		return r, nil
	}
	return "", fmt.Errorf("%w: unknown role %.40q, want anonymous, reporter, trusted or admin", bulkhead.ErrMalformed, name)
}

// vouched reports whether an administrator has vouched for accounts of role r.
func (r Role) vouched() bool { return r == Trusted || r == Admin }

// MaxName is the largest number of bytes in the name of an account.
const MaxName = 128

// An Account is somebody who may report. The zero Account is invalid.
type Account struct {
	Name    string    `json:"name"`
	Role    Role      `json:"role"`
	Weight  float64   `json:"weight"` // 0..1; of a reporter: the start weight
	Created time.Time `json:"created"`
	// From is the address that registered the account, if it registered itself.
	From netip.Addr `json:"from,omitzero"`
	// Closed accounts keep their name and may do nothing.
	Closed bool `json:"closed,omitempty"`
	// Confirmed and Reverted count the reports that others confirmed and those
	// that were revoked. Only the weight of a reporter depends on them.
	Confirmed uint32 `json:"confirmed,omitempty"`
	Reverted  uint32 `json:"reverted,omitempty"`
	// TokenHash is the SHA-256 of the bearer token, empty for none.
	TokenHash []byte `json:"token_hash,omitempty"`
	// Sealed holds the shared secrets of protocols that need the secret itself
	// (Razor, Pyzor, DCC), by protocol, each encrypted by a [Sealer].
	Sealed map[string][]byte `json:"sealed,omitempty"`
}

// Validate checks every field against its range. Its error wraps
// [bulkhead.ErrMalformed].
func (a *Account) Validate() error {
	if err := CheckName(a.Name); err != nil {
		return err
	}
	if _, err := ParseRole(string(a.Role)); err != nil {
		return err
	}
	if math.IsNaN(a.Weight) || a.Weight < 0 || a.Weight > 1 {
		return fmt.Errorf("%w: account %q: weight %v is not in 0..1", bulkhead.ErrMalformed, a.Name, a.Weight)
	}
	if n := len(a.TokenHash); n != 0 && n != tokenHashSize {
		return fmt.Errorf("%w: account %q: token hash of %d bytes, want %d", bulkhead.ErrMalformed, a.Name, n, tokenHashSize)
	}
	return nil
}

// CheckName refuses names that are empty, too long, not UTF-8 or hold anything
// but letters, digits, punctuation and symbols. Its error wraps
// [bulkhead.ErrMalformed].
func CheckName(name string) error {
	if name == "" || len(name) > MaxName || !utf8.ValidString(name) {
		return fmt.Errorf("%w: account name of %d bytes, want 1 to %d of UTF-8", bulkhead.ErrMalformed, len(name), MaxName)
	}
	for _, r := range name {
		if !unicode.IsGraphic(r) || unicode.IsSpace(r) {
			return fmt.Errorf("%w: account name %q holds %U", bulkhead.ErrMalformed, name, r)
		}
	}
	return nil
}

// A Policy is the numbers of the trust model; see the package comment. Weights
// lie in 0..1.
type Policy struct {
	Promotion      float64 // weight that lists or revokes a signature, > 0
	Loopback       float64 // weight of anonymous clients on the node itself, and start weight of accounts registered there
	Anonymous      float64 // weight of other anonymous clients; 0: their votes are refused
	SelfRegistered float64 // start weight of accounts registered from elsewhere
	Ceiling        float64 // most that a reporter can earn
	Half           float64 // confirmations that earn half the way to the ceiling, > 0
}

// DefaultPolicy lists on one report from the node itself or a trusted account.
// Others can help one of less weight, and never list alone.
func DefaultPolicy() Policy {
	return Policy{Promotion: 1, Loopback: 1, Anonymous: 0, SelfRegistered: 0.05, Ceiling: 0.8, Half: 20}
}

// Validate checks every field against its range. Its error wraps
// [bulkhead.ErrMalformed].
func (p Policy) Validate() error {
	for name, w := range map[string]float64{"loopback": p.Loopback, "anonymous": p.Anonymous, "self_registered": p.SelfRegistered, "ceiling": p.Ceiling} {
		if !(w >= 0 && w <= 1) {
			return fmt.Errorf("%w: trust: %s weight %v is not in 0..1", bulkhead.ErrMalformed, name, w)
		}
	}
	if !(p.Promotion > 0 && p.Promotion <= 1000) {
		return fmt.Errorf("%w: trust: promotion weight %v is not in (0, 1000]", bulkhead.ErrMalformed, p.Promotion)
	}
	if !(p.Half > 0 && p.Half <= 1e9) {
		return fmt.Errorf("%w: trust: half %v is not in (0, 1e9]", bulkhead.ErrMalformed, p.Half)
	}
	return nil
}

// StartWeight returns the weight that an account registered from addr starts
// with.
func (p Policy) StartWeight(addr netip.Addr) float64 {
	if IsLocal(addr) {
		return p.Loopback
	}
	return p.SelfRegistered
}

// forgiven is how many confirmations make up for one reverted report.
const forgiven = 50

// Of returns the weight of account a under p, in 0..1; 0 if it is closed.
func (p Policy) Of(a *Account) float64 {
	if a.Closed {
		return 0
	}
	if a.Role != Member {
		return a.Weight
	}
	c := float64(a.Confirmed)
	earned := a.Weight + max(0, p.Ceiling-a.Weight)*c/(c+p.Half)
	earned *= math.Exp2(-max(0, float64(a.Reverted)-c/forgiven))
	if p.root(a) {
		// What was given is taken away by who gave it: the only reporter of a node
		// stays useful, however often others disagree.
		return max(a.Weight, earned)
	}
	return earned
}

// root reports whether the weight of a was given and not earned: an administrator
// vouched for a, or it was registered on the node itself, or an administrator gave
// it more than can be earned.
func (p Policy) root(a *Account) bool {
	return a.Role.vouched() || a.From.IsValid() && IsLocal(a.From) || !a.From.IsValid() && a.Weight > p.Ceiling
}

// confirms is the weight from which an account's reports confirm those of
// others.
const confirms = 0.5

// Confirms reports whether a report of a confirms the reports of others: an
// administrator has vouched for a, with a weight of at least one half. Nobody earns
// it, or accounts of one hand would raise each other.
func (p Policy) Confirms(a *Account) bool {
	return !a.Closed && a.Role.vouched() && p.Of(a) >= confirms
}

// IsLocal reports whether addr is the node itself: loopback, or the zero Addr
// of a caller inside the process.
func IsLocal(addr netip.Addr) bool {
	return !addr.IsValid() || addr.Unmap().IsLoopback()
}

// Network returns the network that addr is counted under: its /24 or /48.
func Network(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	bits := 48
	if addr.Is4() {
		bits = 24
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
