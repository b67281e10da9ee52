package node

import (
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/digest/razor"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/razor2"
)

// TestRazorUsersChangeTheirMinds reports and revokes a mail through the Razor door: the latest vote
// of a user counts, and a user whose report another user revoked still lists.
func TestRazorUsersChangeTheirMinds(t *testing.T) {
	ctx := t.Context()
	s, address := startWith(t, config.Default(), "razor2")
	login := func(name string) *razor2.Client {
		c, err := razor2.Dial(ctx, address["razor2"], nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		account := razor2.Credentials{User: name, Password: "secret"}
		if _, err := c.Register(ctx, account); err != nil {
			t.Fatal(err)
		}
		if err := c.Login(ctx, account); err != nil {
			t.Fatal(err)
		}
		return c
	}
	ana, bob := login("ana"), login("bob")
	for _, name := range []string{"ana", "bob"} { // two persons, not the node itself
		if err := s.accounts.ChangeUser(ctx, name, admin.UserChange{Person: &name}); err != nil {
			t.Fatal(err)
		}
	}
	mail := func(what string) []byte {
		return []byte(
			"X-Razor2-Agent: test\nContent-Type: text/plain\n\n" + strings.Repeat(what+" for every bookshelf, order now.\n", 9))
	}
	for n, step := range []struct {
		user *razor2.Client
		vote byte
		mail string
		spam bool
	}{
		{ana, '+', "pills", true}, {ana, '-', "pills", false}, {ana, '+', "pills", true},
		{bob, '-', "pills", false}, {ana, '-', "pills", false}, {bob, '+', "pills", false},
		{ana, '+', "pills", true}, {ana, '-', "hats", false}, {ana, '+', "hats", true},
		{bob, '-', "hats", false}, {ana, '+', "lamps", true},
	} {
		part := mail(step.mail)
		prepared, ok := razor.Prepared(part)
		if !ok || !prepared.Listable() {
			t.Fatal("the mail has no signature")
		}
		vote := func() error { return step.user.Revoke(ctx, prepared.E4) }
		if step.vote == '+' {
			vote = func() error { return step.user.Report(ctx, []byte("Subject: "+step.mail+"\n"), [][]byte{part}) }
		}
		err := vote()
		if err != nil {
			t.Fatalf("step %d: %v", n, err)
		}
		if got, err := bob.Check(ctx, prepared.E4); err != nil || got[0].Spam != step.spam {
			t.Errorf("step %d: %+v, %v, want spam %v", n, got, err, step.spam)
		}
	}
}
