package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestRecipientsTravel: mailboxes and traps in a report arrive as the Go client sends them, for
// whole messages and ready signatures alike.
func TestRecipientsTravel(t *testing.T) {
	house := &prototest.House{}
	front := httptest.NewServer(newServer(t, house, nil))
	defer front.Close()
	c := &client.Client{Server: front.URL}
	sigs := []bulkhead.Signature{sign(t, "dcc/body:77")}
	people, mailboxes := []string{"Ann@example.com", "bob+shops@example.com"},
		[]string{"ann@example.com", "bob@example.com"}
	if _, err := c.ReportMessage(t.Context(), []byte(sample),
		client.MessageOptions{Count: 2, Recipients: people}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []bulkhead.Report{
		{Signatures: sigs, Count: 2, Recipients: people},
		{Signatures: sigs, Vote: bulkhead.Spam, Trap: true, Recipients: people}, // a vote may name none
		{Signatures: sigs, Recipients: make([]string, 0)},
	} {
		if _, err := c.Report(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	want := []bulkhead.Report{{Recipients: mailboxes}, {Recipients: mailboxes}, {Trap: true}, {}}
	for i, r := range house.Reports() {
		if !reflect.DeepEqual(r.Recipients, want[i].Recipients) || r.Trap != want[i].Trap {
			t.Errorf("report %d came with recipients %q, trap %v; want %q, %v", i, r.Recipients, r.Trap, want[i].Recipients,
				want[i].Trap)
		}
	}
}

// TestRecipientsRefused: a report that names too many recipients, or a vote
// that names any, changes nothing.
func TestRecipientsRefused(t *testing.T) {
	house := &prototest.House{}
	s := newServer(t, house, nil)
	many := make([]string, bulkhead.MaxRecipients+1)
	for i := range many {
		many[i] = fmt.Sprintf("u%d@example.com", i)
	}
	list := "[\"" + strings.Join(many, "\",\"") + "\"]"
	ready := func(fields string) string { return `{"signatures":["dcc/body:77"],` + fields + `}` }
	for name, r := range map[string]struct{ target, mediaType, body string }{
		"too many":        {"/v1/report", requestType, ready(`"vote":"sighting","recipients":` + list)},
		"too many, mail":  {"/v1/report?vote=sighting&" + url.Values{"rcpt": many}.Encode(), mailType, sample},
		"of a vote":       {"/v1/report", requestType, ready(`"recipients":["a@example.com"]`)},
		"of a vote, mail": {"/v1/report?rcpt=a@example.com", mailType, sample},
		"of a revoke":     {"/v1/revoke", requestType, ready(`"recipients":["a@example.com"]`)},
		"of a check":      {"/v1/check?rcpt=a@example.com", mailType, sample},
		"empty":           {"/v1/report?vote=sighting&rcpt=", mailType, sample},
		"long": {"/v1/report", requestType,
			ready(`"vote":"sighting","recipients":["` + strings.Repeat("a", maxName+1) + `"]`)},
		"no list":           {"/v1/report", requestType, ready(`"vote":"sighting","recipients":"a@example.com"`)},
		"a trap's sighting": {"/v1/report", requestType, ready(`"vote":"sighting","trap":true`)},
		"a trap's revoke":   {"/v1/revoke", requestType, ready(`"trap":true`)},
	} {
		if w := send(s, local, "POST", r.target, r.mediaType, r.body); w.Code < 400 || w.Code > 499 {
			t.Errorf("%s: %d %s, want it refused", name, w.Code, w.Body)
		}
	}
	if n := len(house.Reports()); n > 0 {
		t.Errorf("%d reports were taken", n)
	}
	if w := send(s, local, "POST", "/v1/report", requestType,
		ready(`"vote":"sighting","recipients":`+strings.Replace(list, `"u0@example.com",`, "", 1))); w.Code != http.StatusOK {
		t.Errorf("the most that a report may name: %d %s", w.Code, w.Body)
	}
}
