package api

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// A fakeAudit keeps a record in memory.
type fakeAudit struct {
	mu  sync.Mutex
	all []admin.AuditEntry
}

func (f *fakeAudit) Append(e admin.AuditEntry) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, e)
	return nil
}

func (f *fakeAudit) Read(admin.AuditQuery) (admin.AuditPage, error) {
	return admin.AuditPage{Entries: f.take()}, nil
}

func (f *fakeAudit) take() []admin.AuditEntry {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.all
	f.all = nil
	return all
}

// TestEveryChangeIsRecorded walks all routes. Every change leaves one entry with the account, the
// address and the action, even if it fails; queries, votes and reads leave none.
func TestEveryChangeIsRecorded(t *testing.T) {
	record, users, mta := &fakeAudit{}, newFakeUsers(), &fakeMTA{known: map[string]int{}}
	s := newServer(t, &recorder{looks: []bulkhead.Look{{}}}, func(o *Options) {
		o.Accounts, o.Users, o.RateLimits, o.Lists, o.Peers, o.Audit = users, users, mta, mta, &fakePeers{}, record
	})
	// Votes and questions are in the history, not here. A new route for administrators must not be
	// added to this list.
	excused := []string{"check", "report", "revoke", "look", "count", "signatures", "applyRateLimits", "reportEntry",
		"reportMessageID", "learn"}
	recorded := 0
	for _, rt := range s.routes() {
		op := rt.op
		path := strings.NewReplacer("{name}", "bob", "{key}", "k", "{protocol}", "dcc", "{id}", "1").Replace(op.Path)
		send(s, local, op.Method, path, requestType, "{}", "Authorization", "Bearer token-alice")
		got := record.take()
		if op.Method == http.MethodGet || slices.Contains(excused, op.OperationID) {
			if rt.need == manage && op.Method != http.MethodGet {
				t.Errorf("%s %s is administration, and excused", op.Method, op.Path)
			}
			if len(got) != 0 {
				t.Errorf("%s %s: recorded %+v", op.Method, op.Path, got)
			}
			continue
		}
		recorded++
		if len(got) != 1 || got[0].Action != op.OperationID || got[0].Account != "alice" || got[0].From != "127.0.0.1" ||
			got[0].Door != "http" {
			t.Errorf("%s %s: recorded %+v", op.Method, op.Path, got)
		}
	}
	if recorded < 15 {
		t.Errorf("%d routes change something, want most of the administration", recorded)
	}
	// Without a token nothing is recorded: strangers cannot fill the record.
	send(s, local, http.MethodDelete, "/v1/users/bob", "", "")
	send(s, local, http.MethodPost, "/v1/login", "", "")
	if got := record.take(); len(got) != 0 {
		t.Errorf("recorded of strangers: %+v", got)
	}
}

// TestWaitingIsRecordedOnce: a command that asks again until the inviter accepts leaves one entry, and the end of the
// wait another one.
func TestWaitingIsRecordedOnce(t *testing.T) {
	record, users := &fakeAudit{}, newFakeUsers()
	s := newServer(t, &recorder{}, func(o *Options) {
		o.Accounts, o.Users, o.Audit, o.Pairing = users, users, record, &fakePairing{}
	})
	join := func(line string) {
		send(s, local, "POST", "/v1/network/join", requestType, `{"line":"`+line+`","weight":1}`, "Authorization",
			"Bearer token-alice")
	}
	for wait := range 2 {
		for range 3 {
			join("not accepted")
		}
		join("a line")
		if got := record.take(); len(got) != 2 {
			t.Errorf("wait %d: recorded %+v", wait, got)
		}
	}
}

// TestRecordHasNoSecrets: the record has the action and its result, and no secret.
func TestRecordHasNoSecrets(t *testing.T) {
	record, users := &fakeAudit{}, newFakeUsers()
	s := newServer(t, &recorder{}, func(o *Options) { o.Accounts, o.Users, o.Audit = users, users, record })
	token := []string{"Authorization", "Bearer token-alice"}
	send(s, local, http.MethodPut, "/v1/users/bob/secrets/pyzor", requestType, `{"secret":"s3cret"}`, token...)
	send(s, local, http.MethodPatch, "/v1/users/bob", requestType, `{"weight":0.25}`, token...)
	send(s, local, http.MethodDelete, "/v1/users/nobody", "", "", token...)
	got := record.take()
	if len(got) != 3 || got[0].About["account"] != "bob" || got[1].About["weight"] != "0.25" || got[1].Error != "" ||
		!strings.Contains(got[2].Error, "nobody") {
		t.Fatalf("recorded %+v", got)
	}
	for _, e := range got {
		for k, v := range e.About {
			if strings.Contains(k+v, "s3cret") || strings.Contains(v, "token-") {
				t.Errorf("a secret in %+v", e)
			}
		}
	}
}
