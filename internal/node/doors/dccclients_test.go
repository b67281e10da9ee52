package doors

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/dcc"
	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// secrets are accounts with secrets for DCC; a secret of "closed" is of a closed account.
type secrets struct {
	Accounts
	of    map[string]string
	asked int
}

func (s *secrets) Secret(_ context.Context, protocol, name string) ([]byte, bool, error) {
	s.asked++
	secret, ok := s.of[name]
	if protocol != "dcc" || !ok {
		return nil, false, nil
	}
	if secret == "closed" {
		return nil, false, errors.New("closed")
	}
	return []byte(secret), true, nil
}

// TestDCCClients checks who may sign in to DCC: the IDs of the configuration, and accounts named like IDs. The state of
// an account is read again after a moment, so that a change takes effect; and no number of accounts fills the memory.
func TestDCCClients(t *testing.T) {
	s := &secrets{of: map[string]string{"40000": "one two", "40001": "closed"}}
	c := newDCCClients(&protocolAccounts{s, "dcc"}, []config.DCCClient{{ID: 1000, Password: "a", Account: "site"},
		{ID: 1001, Password: "a", Password2: "b"}})
	now := time.Unix(1e9, 0)
	c.now = func() time.Time { return now }
	for id, want := range map[uint32]dcc.Account{
		1000:  {Passwords: []string{"a"}, Name: "site"},
		1001:  {Passwords: []string{"a", "b"}},
		40000: {Passwords: []string{"one", "two"}, Name: "40000"},
		40001: {},
		40002: {},
	} {
		got, ok := c.account(id)
		if ok != (want.Passwords != nil) || !reflect.DeepEqual(got, want) {
			t.Errorf("%d: %+v, %v; want %+v", id, got, ok, want)
		}
	}
	s.of["40000"] = "three"
	before := s.asked
	now = now.Add(dccMemory - 1)
	if got, ok := c.account(40000); !ok || len(got.Passwords) != 2 || s.asked != before {
		t.Errorf("at once: %+v, %v, asked %d times", got, ok, s.asked-before)
	}
	now = now.Add(1)
	if got, ok := c.account(40000); !ok || !reflect.DeepEqual(got.Passwords, []string{"three"}) {
		t.Errorf("after a moment: %+v, %v", got, ok)
	}
	now = now.Add(dccMemory)
	s.of["40000"] = "closed"
	if got, ok := c.account(40000); ok || got.Passwords != nil || len(c.known) != 0 {
		t.Errorf("a closed account: %+v, %v, %d are remembered", got, ok, len(c.known))
	}
	for i := range uint32(maxDCCKnown + 3) {
		s.of[fmt.Sprint(50000+i)] = "x"
		if _, ok := c.account(50000 + i); !ok || len(c.known) > maxDCCKnown {
			t.Fatalf("account %d of many: %v, %d are remembered", i, ok, len(c.known))
		}
	}
	if len(c.known) != 3 {
		t.Errorf("%d are remembered, want the last 3", len(c.known))
	}
}

// TestCheckSecret checks which secrets DCC clients can use.
func TestCheckSecret(t *testing.T) {
	longest := strings.Repeat("x", dcc.MaxPassword)
	for _, tt := range []struct {
		name, secret string
		ok           bool
	}{
		{"32769", "secret", true},
		{"32769", "two words", true},
		{"32769", longest + " " + longest, true},
		{fmt.Sprint(dcc.MinServerID), "x", true},
		{fmt.Sprint(dcc.MaxClientID), "x", true},
		{fmt.Sprint(dcc.MinServerID - 1), "x", false},
		{fmt.Sprint(dcc.MaxClientID + 1), "x", false},
		{"032769", "x", false},
		{"alice", "x", false},
		{"4294967297", "x", false},
		{"32769", "", false},
		{"32769", " \t", false},
		{"32769", "one two three", false},
		{"32769", longest + "x", false},
		{"32769", "x " + longest + "x", false},
	} {
		err := CheckSecret("dcc", tt.name, tt.secret)
		if (err == nil) != tt.ok || err != nil && !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("%s, %q: %v", tt.name, tt.secret, err)
		}
		if err := CheckSecret("pyzor", tt.name, tt.secret); err != nil {
			t.Errorf("%s, %q, for another protocol: %v", tt.name, tt.secret, err)
		}
	}
}
