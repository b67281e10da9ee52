package engine

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/bulkhead-mail/bulkhead"
)

// A Whitelist names what is never called spam and whose mail is not counted.
// Names are compared without regard to case. It must not change once an engine
// has it; replace it with [Engine.SetWhitelist].
type Whitelist struct {
	senders    map[string]struct{}
	domains    map[string]struct{}
	networks   []netip.Prefix
	listIDs    map[string]struct{}
	dkim       map[string]struct{}
	signatures map[bulkhead.Signature]struct{}
}

// WhitelistEntries is a whitelist as an administrator writes it.
type WhitelistEntries struct {
	Senders    []string // addresses, "local@domain"
	Domains    []string // of senders; each stands for its subdomains too
	Networks   []string // of clients: addresses or CIDR prefixes
	ListIDs    []string
	DKIM       []string // signing domains; each stands for its subdomains too
	Signatures []string // in the form of bulkhead.ParseSignature
}

// NewWhitelist returns the whitelist with the given entries, or an error that
// names the first entry that is not of its form.
func NewWhitelist(e WhitelistEntries) (*Whitelist, error) {
	w := &Whitelist{
		senders: make(map[string]struct{}), domains: make(map[string]struct{}),
		listIDs: make(map[string]struct{}), dkim: make(map[string]struct{}),
		signatures: make(map[bulkhead.Signature]struct{}),
	}
	for _, s := range e.Senders {
		if _, domain, ok := cutAddress(s); !ok || domain == "" {
			return nil, fmt.Errorf("whitelist: sender %.100q is not local@domain", s)
		}
		w.senders[fold(s)] = struct{}{}
	}
	for _, list := range []struct {
		name string
		in   []string
		to   map[string]struct{}
	}{{"domain", e.Domains, w.domains}, {"dkim domain", e.DKIM, w.dkim}, {"list id", e.ListIDs, w.listIDs}} {
		for _, s := range list.in {
			if fold(s) == "" || strings.ContainsAny(s, "@ \t") {
				return nil, fmt.Errorf("whitelist: %s %.100q is not a name", list.name, s)
			}
			list.to[fold(s)] = struct{}{}
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

func parseNetwork(s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err
}

// source returns the entry that white-lists mail from s, "" for none.
func (w *Whitelist) source(s *bulkhead.Source) string {
	if w == nil {
		return ""
	}
	if s.Sender != "" {
		sender := fold(s.Sender)
		if _, ok := w.senders[sender]; ok {
			return "sender " + sender
		}
		if _, domain, ok := cutAddress(sender); ok {
			if d := lookDomain(w.domains, domain); d != "" {
				return "domain " + d
			}
		}
	}
	if s.Client.IsValid() {
		addr := s.Client.Unmap()
		for _, p := range w.networks {
			if p.Contains(addr) {
				return "network " + p.String()
			}
		}
	}
	if s.ListID != "" {
		if _, ok := w.listIDs[fold(s.ListID)]; ok {
			return "list " + fold(s.ListID)
		}
	}
	for _, d := range s.DKIM {
		if d := lookDomain(w.dkim, fold(d)); d != "" {
			return "dkim " + d
		}
	}
	return ""
}

func (w *Whitelist) signature(sig bulkhead.Signature) bool {
	if w == nil {
		return false
	}
	_, ok := w.signatures[sig]
	return ok
}

// lookDomain returns the entry of set that is domain or a parent of it.
func lookDomain(set map[string]struct{}, domain string) string {
	if len(set) == 0 {
		return ""
	}
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
