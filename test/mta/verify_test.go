//go:build interop

package mta

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/emersion/go-msgauth/dkim"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// TestPostfixVerifies sends signed mail through Postfix, to a milter that verifies it
// by itself: a header reaches it as it was sent, or no signature of the form "simple"
// would be valid.
func TestPostfixVerifies(t *testing.T) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	dns := nodetest.ServeDNS(t, map[string][]string{
		"TXT s1._domainkey.shop.example": {"v=DKIM1; k=ed25519; p=" + base64.StdEncoding.EncodeToString(public)},
		"TXT friend.example":             {"v=spf1 ip4:198.51.100.7 -all"},
	})
	n := newNode(t,
		fmt.Sprintf(
			"[milter]\nspam = \"reject\"\nresolver = %q\n[whitelist]\ndkim = [\"shop.example\"]\n"+
				"senders = [\"ann@friend.example\"]\n", dns.Address))
	n.start(t)
	sink := startSink(t)
	p := startPostfix(t, sink.addr,
		fmt.Sprintf("smtpd_milters = inet:%s\nmilter_default_action = tempfail\nmilter_protocol = 6\n", n.milter))
	n.bulkhead(t, "From: x@elsewhere.example\nSubject: parcel\n\n"+spam, "report", "--server", "http://"+n.http, "-")
	c := dialSMTP(t, p.addr)
	c.xclient(t, "ADDR=198.51.100.7 NAME=client.example.org")

	message := func(form dkim.Canonicalization, subject string) string {
		plain := strings.ReplaceAll("From:  Ann <ann@shop.example>\nSubject:"+subject+
			"\n  and tables\nTo:\tbob@example.com\n\n"+spam+"\n", "\n", "\r\n")
		var out bytes.Buffer
		err := dkim.Sign(&out, strings.NewReader(plain), &dkim.SignOptions{
			Domain: "shop.example", Selector: "s1", Signer: key, HeaderKeys: []string{"From", "To", "Subject"},
			HeaderCanonicalization: form, BodyCanonicalization: form,
		})
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(out.String(), "\r\n", "\n")
	}
	// The node waits two seconds for the DNS, and a busy machine may need more. Then it asks again ten seconds later.
	cleared := func(what, from, mail string) {
		t.Helper()
		nodetest.Settle(t, nodetest.Patience, what+" is cleared", func() string {
			if code, text := c.message(t, from, []string{"bob@example.com"}, mail); code != 250 {
				return fmt.Sprint(code, " ", text)
			}
			return ""
		})
	}
	for i, form := range []dkim.Canonicalization{dkim.CanonicalizationSimple, dkim.CanonicalizationRelaxed} {
		subject := fmt.Sprintf("signed-%d", i)
		cleared(string(form)+", signed", "x@elsewhere.example", message(form, subject))
		if d := sink.await(t, subject); !strings.Contains(d.data, "X-Bulkhead: white\n") {
			t.Errorf("%s, signed: delivered\n%s", form, d.data)
		}
		if code, text := c.message(t, "x@elsewhere.example", []string{"bob@example.com"},
			strings.Replace(message(form, "changed"), "and tables", "and stools", 1)); code != 550 {
			t.Errorf("%s, changed: %d %s, want 550", form, code, text)
		}
	}
	cleared("a sender whose domain names the client", "ann@friend.example", "Subject: spf-1\n\n"+spam)
	other := dialSMTP(t, p.addr)
	other.xclient(t, "ADDR=198.51.100.8 NAME=other.example.org")
	if code, text := other.message(t, "ann@friend.example", []string{"bob@example.com"},
		"Subject: spf-2\n\n"+spam); code != 550 {
		t.Errorf("the same from another client: %d %s, want 550", code, text)
	}
	if text := n.metrics(t); !strings.Contains(text, `bulkhead_milter_events_total{event="verified"} 3`) {
		t.Errorf("metrics:\n%s", text)
	}
}
