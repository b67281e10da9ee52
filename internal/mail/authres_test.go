package mail

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestAuthenticated(t *testing.T) {
	for _, tt := range []struct{ field, dkim, spf string }{
		{"mx.example.com; dkim=pass header.d=a.example", "a.example", ""},
		{"MX.Example.COM 1; DKIM=Pass header.D=A.Example.", "a.example", ""},
		{"mx.example.com;\n\tdkim=pass (2048-bit key) header.d=a.example header.b=\"x/y=\";\n" +
			"\tspf=pass (mx: domain of b@b.example) smtp.mailfrom=b@b.example",
			"a.example", "b.example"},
		{"mx.example.com; dkim=pass header.i=@a.example header.b=fk3/==", "a.example", ""},
		{"mx.example.com; dkim=pass header.i=ann@a.example; dkim/1=pass reason=\"good; really\" header.d=b.example",
			"a.example b.example", ""},
		{"\"mx.example.com\"; spf=pass smtp.mailfrom=\"a b\"@c.example", "", "c.example"},
		{"mx.example.com; spf=pass smtp.mailfrom=c.example;", "", "c.example"},
		{"mx.example.com (a (nested) comment); none", "", ""},
		{"mx.example.com; dkim=none; spf=softfail smtp.mailfrom=a@a.example; dmarc=pass header.from=a.example", "", ""},
		{"mx.example.com; dkim=fail header.d=a.example; dkim=pass header.d=b.example", "b.example", ""},
		// Of other hosts.
		{"mx.example.org; dkim=pass header.d=a.example", "", ""},
		{"mx.example.com.evil.example; dkim=pass header.d=a.example", "", ""},
		{"x mx.example.com; dkim=pass header.d=a.example", "", ""},
		{"", "", ""},
		// Text injected by a sender, through a host that copies the sender's address into the field.
		{"mx.example.com; spf=fail smtp.mailfrom=\"; dkim=pass header.d=a.example; x=\"@evil.example", "", ""},
		{"mx.example.com; spf=fail (domain of \"a) ; dkim=pass header.d=a.example " +
			"(\"@evil.example) smtp.mailfrom=evil.example",
			"", ""},
		{"mx.example.com; spf=fail smtp.mailfrom=\"a; dkim=pass header.d=a.example", "", ""},
		{"mx.example.com; spf=fail (; dkim=pass header.d=a.example", "", ""},
		{"mx.example.com; dkim=pass header.d=evil.example header.d=a.example", "", ""},
		{"mx.example.com; dkim=pass header.d=b.example; dkim pass header.d=a.example", "", ""},
		{"mx.example.com dkim=pass header.d=a.example", "", ""},
		{"mx.example.com; dkim=pass header.d=com", "", ""},
		{"mx.example.com; dkim=pass header.d=\"evil.example a.example\"", "", ""},
		{"mx.example.com; spf=pass smtp.helo=a.example", "", ""},
		{"mx.example.com; =pass header.d=a.example", "", ""},
	} {
		dkim, spf := authenticated(nil, nil, tt.field, []string{"mx.example.com"})
		if got := strings.Join(dkim, " "); got != tt.dkim || strings.Join(spf, " ") != tt.spf {
			t.Errorf("%q: DKIM %q, SPF %q; want %q, %q", tt.field, dkim, spf, tt.dkim, tt.spf)
		}
	}
}

func TestSourceBy(t *testing.T) {
	const dkim, spf = "Authentication-Results: mx.example.com; dkim=pass header.d=news.example\r\n",
		"Authentication-Results: mx.example.com; spf=pass smtp.mailfrom=b@bounces.example\r\n"
	head := "Return-Path: <b@bounces.example>\r\n" +
		"From: Ann <ann@mail.news.example>\r\nList-Id: Offers <offers.news.example>\r\n"
	for _, tt := range []struct {
		name, header, envelope string
		hosts                  []string
		sender, listID         string
	}{
		{"nothing verified", head, "", []string{"mx.example.com"}, "", ""},
		{"signed", dkim + head, "", []string{"mx.example.com"}, "ann@mail.news.example", "offers.news.example"},
		{"signed, of a host that is not believed", dkim + head, "", []string{"mx.example.org"}, "", ""},
		{"signed, nobody is believed", dkim + head, "", nil, "", ""},
		{"SPF", spf + head, "", []string{"mx.example.com"}, "b@bounces.example", ""},
		{"SPF, another envelope", spf + head, "x@elsewhere.example", []string{"mx.example.com"}, "", ""},
		{"both", spf + dkim + head, "", []string{"mx.example.org", "mx.example.com"}, "ann@mail.news.example",
			"offers.news.example"},
		{"a name that ends alike", strings.ReplaceAll(dkim, "news", "ews") + head, "", []string{"mx.example.com"}, "", ""},
		{"below what forged fields push down", strings.Repeat("Authentication-Results: other.example; none\r\n",
			maxAuthResults) + dkim + head, "", []string{"mx.example.com"}, "", ""},
	} {
		m, err := Read(t.Context(), []byte(tt.header+"\r\ntext\r\n"))
		if err != nil {
			t.Fatal(err)
		}
		s := m.SourceBy(tt.hosts, tt.envelope)
		claimed := tt.envelope
		if claimed == "" {
			claimed = "b@bounces.example"
		}
		if s.Sender != tt.sender || s.ListID != tt.listID || s.ClaimedSender != claimed ||
			s.ClaimedListID != "offers.news.example" {
			t.Errorf("%s: %+v", tt.name, s)
		}
	}
}

// FuzzAuthenticated wants no more of any field than names that are in it, and of
// one with a foreign part in quotes or a comment what it says without.
func FuzzAuthenticated(f *testing.F) {
	f.Add("mx.example.com; dkim=pass header.d=a.example (x) ; spf=pass smtp.mailfrom=\"a\"@b.example")
	f.Add("mx.example.com 1; none")
	f.Add("\\\"(")
	hosts := []string{"mx.example.com"}
	f.Fuzz(func(t *testing.T, text string) {
		dkim, spf := authenticated(nil, nil, text, hosts)
		for _, d := range slices.Concat(dkim, spf) {
			if !strings.Contains(d, ".") || strings.ContainsAny(d, " \t\"();") {
				t.Errorf("%q verifies %q", text, d)
			}
		}
		if strings.ContainsAny(text, "\"\\\r\n") {
			return
		}
		field := fmt.Sprintf("mx.example.com; spf=fail smtp.mailfrom=\"%s\"@evil.example; dkim=pass header.d=good.example",
			text)
		if dkim, spf := authenticated(nil, nil, field, hosts); len(spf) > 0 || !slices.Equal(dkim, []string{"good.example"}) {
			t.Errorf("%q: DKIM %q, SPF %q", field, dkim, spf)
		}
	})
}
