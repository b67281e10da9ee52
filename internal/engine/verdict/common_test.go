package verdict

import (
	"testing"

	"github.com/bulkhead-mail/bulkhead"
)

// TestUsers: which senders of a link count.
func TestUsers(t *testing.T) {
	for _, tt := range []struct {
		name string
		e    Evidence
		want float64
	}{
		{"each copy of a campaign has a sender", Evidence{Addresses: 9, New: 40}, 0},
		{"the day after", Evidence{Addresses: 9, Old: 40, Late: 40, Days: 1}, 0},
		{"the afternoon of it", Evidence{Addresses: 9, Old: 40, New: 5, Days: 1}, 0},
		{"five on several days", Evidence{Addresses: 5, Old: 5, Days: 4}, 5},
		{"four of them half a day ago", Evidence{Addresses: 5, Old: 5, Late: 1, Days: 4}, 4},
		{"on two days", Evidence{Addresses: 5, Old: 5, Days: 2}, 5},
		{"many today", Evidence{Addresses: 10, Old: 5, New: 50, Days: 4}, 5},
		{"of weeks of which deliveries are forgotten", Evidence{Addresses: 9, New: 3}, 6},
		{"the same, with days", Evidence{Addresses: 9, Old: 2, New: 3, Days: 2}, 6},
	} {
		if got := tt.e.users(); got != tt.want {
			t.Errorf("%s: %v senders, want %v", tt.name, got, tt.want)
		}
	}
}

// TestCampaignMakesNothingCommon: each copy of a campaign has a verified name of its own, and the same link, file or
// contact. Reports list it. They do not list a link that as many senders sent on several days.
func TestCampaignMakesNothingCommon(t *testing.T) {
	text := body(bulkhead.Exact, Evidence{})
	sender := from("fresh.example", Evidence{})
	for _, scheme := range []bulkhead.Scheme{bulkhead.Link, bulkhead.Attachment, bulkhead.Contact} {
		for _, tt := range []struct {
			name string
			sent Evidence
			want bulkhead.Class
		}{
			{"today", Evidence{Addresses: 30, New: 30}, bulkhead.ClassSpam},
			{"on several days", Evidence{Addresses: 30}.delivered(30), bulkhead.ClassUnknown},
		} {
			e := voted(6, 0)
			e.Addresses, e.Old, e.New, e.Days = tt.sent.Addresses, tt.sent.Old, tt.sent.New, tt.sent.Days
			v, _, _ := judge([]part{text, sender, {scheme: scheme, name: "part.example", Evidence: e}}, nil, "")
			if v.Class != tt.want {
				t.Errorf("%v sent %s: %v by %s, want %v; %q", scheme, tt.name, v.Class, v.Rule, tt.want, v.Reasons)
			}
		}
	}
}

// TestCommonLinkIsNoFault: a changed copy of a text that was reported with two links is suspected, and no spam, if
// its known sender has no reports and links only to what everybody uses.
func TestCommonLinkIsNoFault(t *testing.T) {
	e := voted(2, 0)
	e.Contexts = 2
	for name, want := range map[string]bulkhead.Class{
		"bit.ly": bulkhead.ClassSuspected, "new.example": bulkhead.ClassSpam,
	} {
		v, _, _ := judge(message(nearly(e), []part{from("known.example", Evidence{Old: 1, Days: 1}),
			link(name, Evidence{})}), nil, "")
		if v.Class != want {
			t.Errorf("with a link to %s: %v by %s, want %v", name, v.Class, v.Rule, want)
		}
	}
}

// serviceMail is a template that was reported six times with its sender, and delivered on a number of days. names is
// the number of names that the sender's mail claims, and sent the number of its deliveries.
func serviceMail(days int, names uint32, sent int) ([]part, map[string]Evidence) {
	text := voted(6, 0)
	text.Old, text.Days = 20, days
	address := voted(6, 0).delivered(sent)
	address.Addresses = names
	return message(nearly(text), []part{from("sign.example", voted(6, 0).delivered(sent)),
		from("no-reply@sign.example", address)}), map[string]Evidence{"sign.example": voted(6, 0)}
}

// TestService: reports of what customers send through a service make its template neither spam nor suspected. They do
// if the address is one customer's, or if the text or the address was seldom delivered.
func TestService(t *testing.T) {
	for _, tt := range []struct {
		days  int
		names uint32
		sent  int
		want  bulkhead.Class
	}{
		{3, 5, 120, bulkhead.ClassUnknown}, {3, 9, 400, bulkhead.ClassUnknown},
		{2, 9, 400, bulkhead.ClassSpam}, {3, 4, 400, bulkhead.ClassSpam}, {3, 9, 119, bulkhead.ClassSpam},
	} {
		parts, pairs := serviceMail(tt.days, tt.names, tt.sent)
		if v, _, _ := judge(parts, pairs, ""); v.Class != tt.want {
			t.Errorf("%d days, %d names, %d deliveries: %v by %s, want %v; %q", tt.days, tt.names, tt.sent, v.Class, v.Rule,
				tt.want, v.Reasons)
		}
	}
}

// TestServiceOfCompany: for a well-known company, as many deliveries as reports are enough, whatever its addresses
// claim. A provider of mailboxes and a host below the company are none.
func TestServiceOfCompany(t *testing.T) {
	const company = "docusign.net"
	for _, tt := range []struct {
		domain     string
		days, sent int
		exact      int // days of an exact copy, 0 for a changed one
		want       bulkhead.Class
	}{
		{company, 2, 6, 0, bulkhead.ClassUnknown}, {company, 2, 5, 0, bulkhead.ClassSpam},
		{company, 1, 6, 0, bulkhead.ClassSpam}, {company, 2, 6, 3, bulkhead.ClassUnknown},
		{company, 2, 6, 2, bulkhead.ClassSpam}, {"gmail.com", 9, 400, 0, bulkhead.ClassSpam},
		{"shop.zendesk.com", 9, 400, 0, bulkhead.ClassSpam}, {"sign.example", 9, 400, 0, bulkhead.ClassSpam},
	} {
		text := voted(6, 0)
		text.Old, text.Days = 20, tt.exact
		parts := nearly(text)
		if tt.exact > 0 {
			parts = []part{body(bulkhead.Exact, text)}
		}
		domain := voted(6, 0).delivered(tt.sent)
		domain.Days, domain.Addresses = tt.days, 5
		parts = message(parts, []part{from(tt.domain, domain), from("ann@"+tt.domain, Evidence{}.delivered(3))})
		if v, _, _ := judge(parts, map[string]Evidence{tt.domain: voted(6, 0)}, ""); v.Class != tt.want {
			t.Errorf("%+v: %v by %s; %q", tt, v.Class, v.Rule, v.Reasons)
		}
	}
}
