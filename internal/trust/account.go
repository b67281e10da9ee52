package trust

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead"
)

// A Role determines what an account may do. Each role includes the rights of the roles before it.
type Role string

// The roles, in ascending order.
const (
	Anonymous Role = "anonymous" // checks; reports as the policy allows
	Member    Role = "reporter"  // reports with a weight that it earns
	Trusted   Role = "trusted"   // reports with the weight an administrator gave it
	Admin     Role = "admin"     // manages accounts and the node
)

// ParseRole returns the role called name, or an error that wraps [bulkhead.ErrMalformed].
func ParseRole(name string) (Role, error) {
	switch r := Role(name); r {
	case Anonymous, Member, Trusted, Admin:
		return r, nil
	}
	return "", fmt.Errorf("%w: unknown role %.40q, want anonymous, reporter, trusted or admin", bulkhead.ErrMalformed,
		name)
}

// vouched reports whether an administrator has vouched for accounts of role r.
func (r Role) vouched() bool { return r == Trusted || r == Admin }

// MaxName is the maximum length of an account name in bytes.
const MaxName = 128

// maxNetworks is how many of the networks that confirmed it an account remembers.
const maxNetworks = 3

// An Account is a party that may report. The zero Account is invalid.
type Account struct {
	Name    string    `json:"name"`
	Role    Role      `json:"role"`
	Weight  float64   `json:"weight"` // 0..1; of a reporter: the start weight
	Created time.Time `json:"created"`
	// From is the address that registered the account, if it registered itself.
	From netip.Addr `json:"from,omitzero"`
	// Closed accounts keep their name and may do nothing.
	Closed bool `json:"closed,omitempty"`
	// Person is the owner of the account: all accounts of one person are one voice. If it is empty,
	// the account is a person of its own; see [LocalPerson].
	Person string `json:"person,omitempty"`
	// Parent is the account that answers for this one: an account never weighs more than its
	// parent, and its reverted reports count as the parent's as well.
	Parent string `json:"parent,omitempty"`
	// Active is the day of the last vote, in days since 1970; 0 if the account never voted.
	Active uint32 `json:"active,omitempty"`
	// Confirmed and Reverted count the account's reports that others confirmed, and those that
	// others revoked.
	Confirmed uint32 `json:"confirmed,omitempty"`
	Reverted  uint32 `json:"reverted,omitempty"`
	// Days counts the days with a confirmed report, and LastDay is the last of them, in days since
	// 1970. Networks are the marks ([Mark]) of the first networks that confirmed, without
	// duplicates. RaisedBy is the largest weight among the confirming accounts. Only a reporter's
	// weight depends on these and on Reverted.
	Days     uint32   `json:"days,omitempty"`
	LastDay  uint32   `json:"last_day,omitempty"`
	Networks []uint32 `json:"networks,omitempty"`
	RaisedBy float64  `json:"raised_by,omitempty"`
	// TokenHash is the SHA-256 of the bearer token, empty for none.
	TokenHash []byte `json:"token_hash,omitempty"`
	// Sealed holds the shared secrets of protocols that need the secret itself (Razor, Pyzor, DCC),
	// by protocol, each encrypted by a [Sealer].
	Sealed map[string][]byte `json:"sealed,omitempty"`
}

// Validate checks every field against its range. Its error wraps [bulkhead.ErrMalformed].
func (a *Account) Validate() error {
	// Accounts of earlier versions may have names that CheckName refuses now.
	if err := checkPrintable(a.Name); err != nil {
		return err
	}
	if _, err := ParseRole(string(a.Role)); err != nil {
		return err
	}
	for _, w := range []float64{a.Weight, a.RaisedBy} {
		if math.IsNaN(w) || w < 0 || w > 1 {
			return fmt.Errorf("%w: account %q: weight %v is not in 0..1", bulkhead.ErrMalformed, a.Name, w)
		}
	}
	if len(a.Networks) > maxNetworks {
		return fmt.Errorf("%w: account %q: confirmed by %d networks, of which at most %d are kept", bulkhead.ErrMalformed,
			a.Name, len(a.Networks), maxNetworks)
	}
	for what, name := range map[string]string{"person": a.Person, "parent": a.Parent} {
		if name == "" {
			continue
		}
		if err := CheckName(name); err != nil {
			return fmt.Errorf("account %q: %s: %w", a.Name, what, err)
		}
	}
	if a.Parent == a.Name {
		return fmt.Errorf("%w: account %q is its own parent", bulkhead.ErrMalformed, a.Name)
	}
	if n := len(a.TokenHash); n != 0 && n != tokenHashSize {
		return fmt.Errorf("%w: account %q: token hash of %d bytes, want %d", bulkhead.ErrMalformed, a.Name, n, tokenHashSize)
	}
	return nil
}

// CheckName refuses names that are empty, too long, or open to misinterpretation in output, in a
// path or as an argument of a command. A name consists of letters and digits of any script and
// "._@+=-", and begins with a letter or a digit. Two dots in a row are refused. The error wraps
// [bulkhead.ErrMalformed].
func CheckName(name string) error {
	if err := checkPrintable(name); err != nil {
		return err
	}
	for i, r := range name {
		plain := unicode.IsLetter(r) || unicode.IsDigit(r)
		if !plain && (i == 0 || !strings.ContainsRune("._@+=-", r) && !unicode.IsMark(r)) {
			return fmt.Errorf("%w: account name %q contains %U, want letters, digits and ._@+=-, a letter or digit first",
				bulkhead.ErrMalformed, name, r)
		}
	}
	if strings.Contains(name, "..") {
		return fmt.Errorf("%w: account name %q contains two dots in a row", bulkhead.ErrMalformed, name)
	}
	return nil
}

// CheckNewName is [CheckName] for the name of an account that does not exist yet: it also refuses [LocalPerson].
func CheckNewName(name string) error {
	if name == LocalPerson {
		return fmt.Errorf("%w: account name %q: it stands for this machine itself; choose another one",
			bulkhead.ErrMalformed, name)
	}
	return CheckName(name)
}

func checkPrintable(name string) error {
	if name == "" || len(name) > MaxName || !utf8.ValidString(name) {
		return fmt.Errorf("%w: account name of %d bytes, want 1 to %d of UTF-8", bulkhead.ErrMalformed, len(name), MaxName)
	}
	for _, r := range name {
		if !unicode.IsGraphic(r) || unicode.IsSpace(r) {
			return fmt.Errorf("%w: account name %q contains %U", bulkhead.ErrMalformed, name, r)
		}
	}
	return nil
}

// A Policy is the parameters of the trust model; see the package comment. Weights lie in 0..1.
type Policy struct {
	Promotion      float64 // weight that lists or revokes a signature, > 0
	Loopback       float64 // weight of anonymous clients on the node itself, and start weight of accounts registered there
	Anonymous      float64 // weight of other anonymous clients; 0: their votes are refused
	SelfRegistered float64 // start weight of accounts registered from elsewhere
	Ceiling        float64 // the most that a reporter can earn
	Half           float64 // days with a confirmed report that earn half the way to the ceiling, > 0
	Accounts       int     // maximum number of accounts that registered themselves, >= 1
	PerNetwork     int     // maximum number of these in one network, >= 1
	IdleDays       int     // days without a vote after which such an account that never helped is removed, >= 1
}

// DefaultPolicy lists a signature on one report from the node itself or from a trusted account of
// full weight. Other reporters can support an account of less weight, and never list alone.
func DefaultPolicy() Policy {
	return Policy{
		Promotion: 1, Loopback: 1, Anonymous: 0, SelfRegistered: 0.05, Ceiling: 0.8, Half: 20,
		Accounts: 20_000, PerNetwork: 64, IdleDays: 30,
	}
}

// Validate checks every field against its range. Its error wraps [bulkhead.ErrMalformed].
func (p Policy) Validate() error {
	for name, w := range map[string]float64{"loopback": p.Loopback, "anonymous": p.Anonymous,
		"self_registered": p.SelfRegistered, "ceiling": p.Ceiling} {
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
	for name, n := range map[string]int{"accounts": p.Accounts, "accounts_per_network": p.PerNetwork,
		"idle_days": p.IdleDays} {
		if n < 1 || n > 1e6 {
			return fmt.Errorf("%w: trust: %s %d is not in 1..1000000", bulkhead.ErrMalformed, name, n)
		}
	}
	return nil
}

// StartWeight returns the initial weight of an account registered from addr.
func (p Policy) StartWeight(addr netip.Addr) float64 {
	if IsLocal(addr) {
		return p.Loopback
	}
	return p.SelfRegistered
}

// forgiven is how many days with a confirmed report compensate for one reverted report.
const forgiven = 30

// Of returns the weight of account a under p, in 0..1, without considering its parent; 0 if the
// account is closed.
func (p Policy) Of(a *Account) float64 {
	if a.Closed {
		return 0
	}
	if a.Role != Member {
		return a.Weight
	}
	c := float64(a.Days)
	earned := a.Weight + max(0, p.reach(a)-a.Weight)*c/(c+p.Half)
	earned *= math.Exp2(-max(0, float64(a.Reverted)-c/forgiven))
	if p.root(a) {
		// Only the administrator who gave a weight can take it away: the only reporter of a node
		// stays useful, however often others disagree.
		return max(a.Weight, earned)
	}
	return earned
}

// reach returns the most that a can earn: the ceiling if three networks have confirmed, half of
// that for each missing network, and never more than the weight of the confirming accounts.
func (p Policy) reach(a *Account) float64 {
	if len(a.Networks) == 0 {
		return 0
	}
	missing := maxNetworks - len(a.Networks)
	return min(p.Ceiling*math.Exp2(-float64(missing)), a.RaisedBy)
}

// root reports whether the weight of a was given and not earned: an administrator vouched for a or
// gave it more than can be earned, or a was registered on the node itself.
func (p Policy) root(a *Account) bool {
	return a.Role.vouched() || a.From.IsValid() && IsLocal(a.From) || !a.From.IsValid() && a.Weight > p.Ceiling
}

// confirms is the weight from which an account's reports confirm the reports of others.
const confirms = 0.5

// Confirms reports whether a report of a confirms the reports of others: an administrator has
// vouched for a, with a weight of at least one half. This right cannot be earned, because accounts
// controlled by one person would raise each other.
func (p Policy) Confirms(a *Account) bool {
	return !a.Closed && a.Role.vouched() && p.Of(a) >= confirms
}

// IsLocal reports whether addr is the node itself: loopback, or the zero Addr of a caller inside
// the process.
func IsLocal(addr netip.Addr) bool {
	return !addr.IsValid() || addr.Unmap().IsLoopback()
}

// Network returns the network under which addr is counted: its /24 or /48.
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

// shares is how many voices the networks of one IPv6 /32 have in total: a /32 is the usual
// allocation of one organisation, which can make 65,536 networks of it.
const shares = 4

// Voucher returns the name of the voice shared by all reporters at the address without anyone
// vouching for them: the /24, or one of the voices of an IPv6 /32.
func Voucher(addr netip.Addr) string {
	network := Network(addr)
	if network.Addr().Is4() || !network.IsValid() {
		return network.String()
	}
	b := network.Addr().As16()
	wide := netip.PrefixFrom(network.Addr(), 32).Masked()
	return fmt.Sprintf("%v#%d", wide, (int(b[4])+int(b[5]))%shares)
}

// Mark returns what an account remembers of the network of a reporter who confirmed its report: a
// hash of the network, or a mark for the node itself.
func Mark(r bulkhead.Reporter) uint32 {
	network := LocalPerson
	if !IsLocal(r.Addr) {
		network = Network(r.Addr).String()
	}
	sum := sha256.Sum256([]byte(network))
	return binary.LittleEndian.Uint32(sum[:])
}
