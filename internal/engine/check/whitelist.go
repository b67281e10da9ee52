package check

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/bulkhead-mail/bulkhead"
)

// A Whitelist describes mail that is never called spam and not counted. Names are case-insensitive.
// A Whitelist must not change once a checker has it; replace it with [Checker.SetWhitelist].
type Whitelist struct {
	proven, claimed sourceNames // entries for verified names, and entries that also match unverified names
	networks        []netip.Prefix
	dkim            map[string]struct{}
	signatures      map[bulkhead.Signature]struct{}
}

// sourceNames are entries that name the source of a message.
type sourceNames struct{ senders, domains, listIDs map[string]struct{} }

func newSourceNames() sourceNames {
	return sourceNames{make(map[string]struct{}), make(map[string]struct{}), make(map[string]struct{})}
}

// WhitelistEntries is a whitelist as an administrator writes it. Senders, Domains
// and ListIDs match only what was verified, unless they begin with [bulkhead.Forgeable].
type WhitelistEntries struct {
	Senders    []string // addresses, "local@domain"
	Domains    []string // of senders; each includes its subdomains
	Networks   []string // of clients: addresses or CIDR prefixes
	ListIDs    []string
	DKIM       []string // signing domains; each includes its subdomains
	Signatures []string // in the form of bulkhead.ParseSignature
}

// NewWhitelist returns the whitelist with the given entries, or an error that names the
// first invalid entry.
func NewWhitelist(e WhitelistEntries) (*Whitelist, error) {
	w := &Whitelist{
		proven: newSourceNames(), claimed: newSourceNames(),
		dkim: make(map[string]struct{}), signatures: make(map[bulkhead.Signature]struct{}),
	}
	for _, list := range []struct {
		name            string
		in              []string
		proven, claimed map[string]struct{}
		valid           func(string) bool
	}{
		{"sender", e.Senders, w.proven.senders, w.claimed.senders, isAddress},
		{"domain", e.Domains, w.proven.domains, w.claimed.domains, isName},
		{"list id", e.ListIDs, w.proven.listIDs, w.claimed.listIDs, isName},
		{"dkim domain", e.DKIM, w.dkim, nil, isName},
	} {
		for _, entry := range list.in {
			s, forgeable := strings.CutPrefix(entry, bulkhead.Forgeable)
			switch {
			case forgeable && list.claimed == nil:
				return nil, fmt.Errorf("whitelist: %s %.100q: DKIM domains are always verified, so none is forgeable", list.name,
					entry)
			case !list.valid(s):
				return nil, fmt.Errorf("whitelist: %s %.100q is not a name", list.name, entry)
			case forgeable:
				list.claimed[fold(s)] = struct{}{}
			}
			list.proven[fold(s)] = struct{}{}
		}
	}
	for _, s := range e.Networks {
		p, err := parseNetwork(s)
		if err != nil {
			return nil, fmt.Errorf("whitelist: network %.100q is neither an address nor a prefix", s)
		}
		w.networks = append(w.networks, p)
	}
	for _, s := range e.Signatures {
		sig, err := bulkhead.ParseSignature(s)
		if err != nil {
			return nil, fmt.Errorf("whitelist: %w", err)
		}
		w.signatures[sig] = struct{}{}
	}
	return w, nil
}

// isAddress reports whether s is local@domain.
func isAddress(s string) bool {
	_, domain, ok := cutAddress(s)
	return ok && domain != ""
}

// isName reports whether s may name a domain or list.
func isName(s string) bool { return fold(s) != "" && !strings.ContainsAny(s, "@ \t:") }

func parseNetwork(s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err
}

// Source returns the entry that whitelists mail from s, or "" if there is none. w may be nil.
func (w *Whitelist) Source(s *bulkhead.Source) string {
	if w == nil {
		return ""
	}
	if entry := w.proven.match(s.Sender, s.ListID); entry != "" {
		return entry
	}
	if entry := w.claimed.match(s.ClaimedSender, s.ClaimedListID); entry != "" {
		return bulkhead.Forgeable + " " + entry
	}
	if s.Client.IsValid() {
		addr := s.Client.Unmap()
		for _, p := range w.networks {
			if p.Contains(addr) {
				return "network " + p.String()
			}
		}
	}
	for _, d := range s.DKIM {
		if d := lookDomain(w.dkim, fold(d)); d != "" {
			return "dkim " + d
		}
	}
	return ""
}

// match returns the entry for a sender or list, or "" if there is none.
func (o *sourceNames) match(sender, listID string) string {
	if sender != "" {
		sender = fold(sender)
		if _, ok := o.senders[sender]; ok {
			return "sender " + sender
		}
		if _, domain, ok := cutAddress(sender); ok {
			if d := lookDomain(o.domains, domain); d != "" {
				return "domain " + d
			}
		}
	}
	if id := fold(listID); id != "" {
		if _, ok := o.listIDs[id]; ok {
			return "list " + id
		}
	}
	return ""
}

func (w *Whitelist) signature(sig bulkhead.Signature) bool {
	if w == nil || len(w.signatures) == 0 {
		return false
	}
	_, ok := w.signatures[sig]
	return ok
}

// lookDomain returns the entry of set that equals domain or is a parent of it.
func lookDomain(set map[string]struct{}, domain string) string {
	for domain != "" {
		if _, ok := set[domain]; ok {
			return domain
		}
		_, domain, _ = strings.Cut(domain, ".")
	}
	return ""
}

func cutAddress(s string) (local, domain string, ok bool) {
	i := strings.LastIndexByte(s, '@')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

func fold(s string) string {
	return strings.ToLower(strings.TrimSuffix(strings.Trim(strings.TrimSpace(s), "<>"), "."))
}

// message returns the entry that a message matches by its source or one of its signatures, or "" if
// there is none.
func (w *Whitelist) message(source *bulkhead.Source, sigs []bulkhead.Signature) string {
	if entry := w.Source(source); entry != "" {
		return entry
	}
	for i := range sigs {
		if w.signature(sigs[i]) {
			return "signature " + sigs[i].String()
		}
	}
	return ""
}
