// Package wellknown holds the domains that unrelated senders link to: platforms, shorteners, mail
// services and large brands. A node knows them from its first day. It learns further ones from the mail
// of its own users (see verdict.Evidence.Common).
package wellknown

import (
	"bytes"
	_ "embed"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/net/publicsuffix"
)

var (
	//go:embed domains.txt
	listed string // by list.sh
	//go:embed own.txt
	own string
	//go:embed mailboxes.txt
	listedMailboxes string // by list.sh
	//go:embed own-mailboxes.txt
	ownMailboxes string
	//go:embed redirectors.txt
	listedRedirectors string
	//go:embed pages.txt
	listedPages string
)

var (
	domains   = sync.OnceValue(func() map[string]bool { return linesOf(listed + own + ownMailboxes) })
	mailboxes = sync.OnceValue(func() map[string]bool { return linesOf(listedMailboxes + ownMailboxes) })

	redirectors = sync.OnceValue(func() map[string]bool { return linesOf(listedRedirectors) })
	pages       = sync.OnceValue(func() map[string]bool { return linesOf(listedRedirectors + listedPages) })
)

func linesOf(text string) map[string]bool {
	all := make(map[string]bool)
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			all[line] = true
		}
	}
	return all
}

// Domain reports whether a host in lower case, or a domain above it, is well known. So is a host below which a company
// gives names to its customers, such as "s3.amazonaws.com": what leads to the host itself names a customer in its path.
// The link of a place on a host, "forms.example/abc", is not well known: it belongs to one customer. Only places that
// redirect to a link in their query are, such as "www.google.com/url", and pages of the company itself, such as
// "support.google.com/calendar".
func Domain(link []byte) bool {
	all := domains()
	host, _, place := bytes.Cut(link, []byte{'/'})
	if place {
		all = pages()
	} else if ofCustomers(string(host)) {
		return true
	}
	for len(host) > 0 {
		if all[string(link)] || place && all[string(host)] {
			return true
		}
		dot := bytes.IndexByte(host, '.')
		if dot < 0 {
			return false
		}
		host, link = host[dot+1:], link[dot+1:]
	}
	return false
}

// ofCustomers reports whether a company gives the names below a host to its customers. An address is its own suffix,
// and no list has it.
func ofCustomers(host string) bool {
	suffix, icann := publicsuffix.PublicSuffix(host)
	_, err := netip.ParseAddr(host)
	return !icann && suffix == host && strings.Contains(suffix, ".") && err != nil
}

// Company reports whether a domain in lower case is well known itself, and is no provider of mailboxes. Its verified
// mail is of its own programs or staff, also where customers have written some of it.
func Company(domain []byte) bool { return domains()[string(domain)] && !mailboxes()[string(domain)] }

// microsoft is the suffix of free tenants that the Public Suffix List lacks.
const microsoft = ".onmicrosoft.com"

// Tenant reports whether a domain lies below a suffix that a company runs for its customers, such as
// "tenant.platform.example", by the private part of the Public Suffix List. Such names cost nothing.
func Tenant(domain []byte) bool {
	if bytes.HasSuffix(domain, []byte(microsoft)) && len(domain) > len(microsoft) {
		return true
	}
	suffix, icann := publicsuffix.PublicSuffix(string(domain))
	return !icann && strings.Contains(suffix, ".") && len(suffix) < len(domain)
}
