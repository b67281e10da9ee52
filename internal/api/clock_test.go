package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestClock: the clients that may move the clock of a node, and the allowed steps.
func TestClock(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	now := start
	s := newServer(t, &prototest.House{}, func(o *Options) {
		o.Access.AnonymousReport = Everyone
		o.Advance = func(_ context.Context, d time.Duration, _ bool) (time.Time, error) {
			if d <= 0 {
				return time.Time{}, fmt.Errorf("%w: %v", bulkhead.ErrMalformed, d)
			}
			now = now.Add(d)
			return now, nil
		}
	})
	for _, c := range []struct {
		name, from, method, query string
		headers                   []string
		want                      int
	}{
		{"from elsewhere", "192.0.2.1", "POST", "?advance=24h", nil, http.StatusUnauthorized},
		{"a user's token", local, "POST", "?advance=24h", []string{"Authorization", "Bearer token-bob"},
			http.StatusForbidden},
		{"nobody's token", local, "POST", "?advance=24h", []string{"Authorization", "Bearer none"}, http.StatusUnauthorized},
		{"a page elsewhere", local, "POST", "?advance=24h", []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{"without a duration", local, "POST", "", nil, http.StatusBadRequest},
		{"no duration", local, "POST", "?advance=tomorrow", nil, http.StatusBadRequest},
		{"no unit", local, "POST", "?advance=24", nil, http.StatusBadRequest},
		{"not a number of nanoseconds", local, "POST", "?advance=99999999999h", nil, http.StatusBadRequest},
		{"backwards", local, "POST", "?advance=-24h", nil, http.StatusBadRequest},
		{"nowhere", local, "POST", "?advance=0s", nil, http.StatusBadRequest},
		{"twice", local, "POST", "?advance=1h&advance=1h", nil, http.StatusBadRequest},
		{"another parameter", local, "POST", "?advance=1h&to=2030", nil, http.StatusBadRequest},
		{"read", local, "GET", "?advance=24h", nil, http.StatusMethodNotAllowed},
	} {
		if w := send(s, c.from, c.method, "/v1/clock"+c.query, "", "", c.headers...); w.Code != c.want {
			t.Errorf("%s: %d %s, want %d", c.name, w.Code, w.Body, c.want)
		}
		if !now.Equal(start) {
			t.Fatalf("%s moved the clock", c.name)
		}
	}
	for i, c := range []struct {
		from    string
		headers []string
	}{{local, nil}, {"192.0.2.1", []string{"Authorization", "Bearer token-alice"}}} {
		w := send(s, c.from, "POST", "/v1/clock?advance=36h30m", mailType, "", c.headers...)
		var got Clock
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if want := start.Add(time.Duration(i+1) * 2190 * time.Minute); !got.Now.Equal(want) || !now.Equal(want) {
			t.Errorf("told %v, the clock is at %v, want %v", got.Now, now, want)
		}
	}
}

// TestNoClock: a node without an adjustable clock has no route for it, and its document names none.
func TestNoClock(t *testing.T) {
	s := newServer(t, &prototest.House{}, nil)
	if w := send(s, local, "POST", "/v1/clock?advance=24h", "", "", "Authorization",
		"Bearer token-alice"); w.Code != http.StatusNotFound {
		t.Errorf("POST /v1/clock = %d, want 404", w.Code)
	}
	if w := send(s, local, "GET", "/openapi.json", "", ""); w.Code != http.StatusOK ||
		strings.Contains(w.Body.String(), "/v1/clock") {
		t.Errorf("the document names /v1/clock, or is not there (%d)", w.Code)
	}
}
