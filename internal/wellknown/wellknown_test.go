package wellknown

import (
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/mail/link"
)

// TestDomain: a well-known domain and every host below it, and nothing that only looks like one.
func TestDomain(t *testing.T) {
	for name, want := range map[string]bool{
		"google.com": true, "docs.google.com": true, "list-manage.com": true, "eu.list-manage.com": true, "bit.ly": true,
		"gmx.de": true, "storage.googleapis.com": true,
		"notgoogle.com": false, "google.com.evil.example": false, "com": false, "": false, ".": false, "evil.example": false,
		"forms.gle/abc": false, "tenant.github.io": false, "tenant.notion.site": false,
		"www.google.com/url": true, "google.com/url": true, "eur02.safelinks.protection.outlook.com/": true,
		"google.com/urls": false, "google.com/": false, "notgoogle.com/url": false, "evil.example/google.com/url": false,
		"google.com.evil.example/url": false, "/url": false, "/": false,
		"s3.amazonaws.com": true, "s3.eu-west-1.amazonaws.com": true, "github.io": true, "s3.amazonaws.com/bucket": false,
		"bucket.s3.amazonaws.com": false, "amazonaws.com": false, "co.uk": false, "evil": false,
		"192.0.2.1": false, "2001:db8::1": false, "::ffff:192.0.2.1": false, "1.2.3": false, "999.1.1.1": false,
		"aka.ms/JoinTeamsMeeting": true, "support.google.com/calendar": true, "www.microsoft.com/en-us": true,
		"teams.microsoft.com/meetingOptions": true, "teams.microsoft.com/l": false,
		"support.google.com.evil.example/x": false, "docs.google.com/calendar": false,
		"calendar.google.com/calendar": true, "calendar.google.com/x": false,
		"f000.backblazeb2.com": true, "f000.backblazeb2.com/file/bucket": false,
	} {
		if got := Domain([]byte(name)); got != want {
			t.Errorf("%q is well known: %v, want %v", name, got, want)
		}
	}
}

// TestCompany: a well-known domain, no host or tenant below it, and no provider of mailboxes.
func TestCompany(t *testing.T) {
	for domain, want := range map[string]bool{
		"google.com": true, "docusign.net": true, "paypal.com": true, "eu.docusign.net": false, "shop.zendesk.com": false,
		"gmail.com": false, "yahoo.co.uk": false, "gmx.de": false, "evil.example": false, "": false,
	} {
		if got := Company([]byte(domain)); got != want {
			t.Errorf("%q is of a company: %v, want %v", domain, got, want)
		}
	}
	for domain := range linesOf(listedMailboxes) {
		if !domains()[domain] {
			t.Errorf("%q is of mailboxes, and is not well known", domain)
		}
	}
}

// TestTenant: names of customers below a private suffix, and neither the suffix nor other names.
func TestTenant(t *testing.T) {
	for domain, want := range map[string]bool{
		"shop.onmicrosoft.com": true, "a.github.io": true, "a.duckdns.org": true, "onmicrosoft.com": false,
		"example.co.uk": false, "example.com": false, "com": false, "": false,
	} {
		if got := Tenant([]byte(domain)); got != want {
			t.Errorf("%q is a tenant: %v, want %v", domain, got, want)
		}
	}
}

// TestLists: every line of the lists is a domain name in lower case with at least two labels, so that
// none exempts a whole top-level domain.
func TestLists(t *testing.T) {
	n := 0
	for line := range strings.Lines(listed + own + listedMailboxes + ownMailboxes) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		n++
		if line != strings.ToLower(line) || !strings.Contains(line, ".") ||
			strings.Trim(line, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
			t.Errorf("%q is no domain", line)
		}
	}
	if n < 1500 || n > 10_000 {
		t.Errorf("%d domains", n)
	}
}

// TestPages: every line of the list of pages is a host below a well-known domain or one of its own, or a place of one.
func TestPages(t *testing.T) {
	for page := range linesOf(listedPages) {
		host, _, _ := strings.Cut(page, "/")
		if l, ok := link.Parse("https://" + page); !ok || l.Host != host || !Domain([]byte(host)) {
			t.Errorf("%q is no page of a well-known company", page)
		} else if !Domain([]byte(l.Place())) {
			t.Errorf("the place %q of %q is not well known", l.Place(), page)
		}
	}
}

// TestRedirectors: every redirecting page of the list is the place of a link through it.
func TestRedirectors(t *testing.T) {
	for place := range redirectors() {
		host, path, _ := strings.Cut(place, "/")
		url := "https://www." + host + "/" + path + "?u=https%3A%2F%2Ftarget.example%2Fpage"
		all := link.All(url)
		if len(all) != 2 || all[1].Domain != "target.example" || !Domain([]byte(all[0].Place())) {
			t.Errorf("%s: %q has the links %+v", place, url, all)
		}
	}
}

func FuzzDomain(f *testing.F) {
	for _, link := range []string{"docs.google.com", "unknown.example", "forms.example/abc", "win.onmicrosoft.com",
		"win.github.io", "www.google.com/url", "s3.amazonaws.com", "192.0.2.1"} {
		f.Add([]byte(link))
	}
	f.Fuzz(func(t *testing.T, name []byte) {
		if Domain(name) && !ofCustomers(string(name)) && !Domain(append([]byte("x."), name...)) {
			t.Errorf("%q is well known, and a host below it is not", name)
		}
		Tenant(name)
	})
}
