package api

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/logtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestAdministrationIsLogged: the account, the change, the address and the result are logged, and
// no secret is.
func TestAdministrationIsLogged(t *testing.T) {
	users, log := newFakeUsers(), &logtest.Log{}
	srv := httptest.NewServer(newServer(t, &prototest.House{}, func(o *Options) {
		o.Accounts, o.Users, o.Log = users, users, log.Logger()
	}))
	defer srv.Close()
	c := &admin.Client{Client: client.Client{Server: srv.URL, HTTP: srv.Client(), Token: "token-alice"}}
	ctx, weight, closed := t.Context(), 0.25, true
	for _, tt := range []struct {
		do   func() error
		want []string // nil for no line at all
	}{
		{func() error {
			_, err := c.AddUser(ctx, admin.NewUser{Name: "carol", Role: "trusted"})
			return err
		}, []string{"operation=addUser", "account=carol", "role=trusted"}},
		{func() error {
			_, err := c.AddUser(ctx, admin.NewUser{Name: "carol"})
			return err
		}, []string{"operation=addUser", "account=carol", "err=", "exists"}},
		{func() error {
			_, err := c.ChangeUser(ctx, "bob", admin.UserChange{Weight: &weight, Closed: &closed})
			return err
		}, []string{"operation=changeUser", "account=bob", "weight=0.25", "closed=true"}},
		{func() error {
			return c.SetSecret(ctx, "carol", "pyzor", "s3cret")
		}, []string{"operation=setSecret", "account=carol", "protocol=pyzor"}},
		{func() error { _, err := c.NewToken(ctx, "carol"); return err }, []string{"operation=newToken", "account=carol"}},
		{func() error { return c.RemoveUser(ctx, "carol") }, []string{"operation=removeUser", "account=carol"}},
		{func() error { return c.RemoveUser(ctx, "nobody") }, []string{"operation=removeUser", "account=nobody", "err="}},
		{func() error { _, err := c.Users(ctx); return err }, nil},
	} {
		err := tt.do()
		line := log.Take()
		if tt.want == nil && line != "" || tt.want != nil && strings.Count(line, "\n") != 1 {
			t.Errorf("log %q, want a line of %q", line, tt.want)
		}
		for _, part := range append(tt.want, "by=alice", "from=127.0.0.1") {
			if tt.want != nil && !strings.Contains(line, part) {
				t.Errorf("log %q lacks %q", line, part)
			}
		}
		if strings.Contains(line, "s3cret") || strings.Contains(line, "token-") {
			t.Errorf("log %q has a secret", line)
		}
		if (err != nil) != strings.Contains(line, "err=") {
			t.Errorf("%v, logged as %q", err, line)
		}
	}
}
