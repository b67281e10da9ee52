package api

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// refusals records attempts of accounts at operations that only administrators may use. It records
// one attempt of each account in refusalEvery, so that an account cannot push other entries out of
// the record.
type refusals struct {
	mu   sync.Mutex
	last map[string]time.Time // by account
}

const (
	refusalEvery = 10 * time.Minute
	maxRefusals  = 1024 // accounts that are remembered
)

// note records that a client was refused, if it has an account.
func (f *refusals) note(s *Server, who bulkhead.Reporter, r *http.Request, err error) {
	if who.Account == "" || !errors.Is(err, bulkhead.ErrForbidden) || !f.first(who.Account, time.Now()) {
		return
	}
	s.record(admin.AuditEntry{Account: who.Account, From: who.Addr.String(), Action: "refused"},
		[]any{"method", r.Method, "path", r.URL.Path}, err)
}

// first reports whether no attempt of an account was recorded recently.
func (f *refusals) first(account string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if last, ok := f.last[account]; ok && now.Sub(last) < refusalEvery {
		return false
	}
	if f.last == nil || len(f.last) >= maxRefusals {
		f.last = make(map[string]time.Time)
	}
	f.last[account] = now
	return true
}
