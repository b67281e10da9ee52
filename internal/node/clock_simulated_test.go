//go:build simclock

package node

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/probe"
)

// TestClockRow: a node whose clock runs ahead has a red row for it. It comes
// before the tests that move the clock of this process.
func TestClockRow(t *testing.T) {
	n, _ := start(t, Options{Config: httpDoor(t), Dir: filepath.Join(t.TempDir(), "data")})
	c := &client.Client{Server: address(t, n, "http")}
	for _, moved := range []bool{false, true} {
		if moved {
			advance(t, c.Server, "24h")
		} else if time.Until(clock.Now()) > time.Hour {
			continue // another run of the tests in this process moved it, and it goes forward only
		}
		rows, err := (&probe.Prober{Node: c}).Doors(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(rows, func(r probe.Row) bool { return r.Name == "clock" })
		if at < 0 || rows[at].OK == moved || moved && !strings.Contains(rows[at].Found, "ahead of this machine's") {
			t.Errorf("moved %v: %+v", moved, rows)
		}
	}
}

// TestClockMoves lets days pass for a node, as its clients do: what is counted after
// an advance is in a new daily generation at once, and everything expires when its
// time has come.
func TestClockMoves(t *testing.T) {
	n, _ := start(t, Options{Config: httpDoor(t), Dir: filepath.Join(t.TempDir(), "data")})
	c := &client.Client{Server: address(t, n, "http")}
	sig, err := bulkhead.ParseSignature("pyzor/digest:0123456789abcdef0123456789abcdef01234567")
	if err != nil {
		t.Fatal(err)
	}
	sigs := []bulkhead.Signature{sig}
	report := func(vote bulkhead.Vote) {
		t.Helper()
		if _, err := c.Report(t.Context(), bulkhead.Report{Signatures: sigs, Vote: vote}); err != nil {
			t.Fatal(err)
		}
	}
	check := func() bulkhead.Verdict {
		t.Helper()
		v, err := c.Check(t.Context(), bulkhead.Query{Signatures: sigs})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}

	const days = 3
	for range days {
		before := time.Now()
		report(bulkhead.Sighting)
		if got := advance(t, c.Server, "24h"); got.Before(before.Add(24 * time.Hour)) {
			t.Fatalf("an advance of 24h leads to %v from %v", got, before)
		}
	}
	report(bulkhead.Spam)
	v := check()
	f := v.Findings[0]
	if f.Sightings < days || f.Spam != 1 {
		t.Errorf("%d sightings and %d spam votes, want %d and 1", f.Sightings, f.Spam, days)
	}
	if got := f.Last.Sub(f.First); got != days*24*time.Hour {
		t.Errorf("counted in generations %v apart, want %d days", got, days)
	}
	var state client.NodeState
	if code, body := get(t, c.Server+"/v1/node"); code != http.StatusOK || json.Unmarshal([]byte(body), &state) != nil {
		t.Fatalf("/v1/node = %d %s", code, body)
	}
	if got := len(state.Books[0].Generations); got != days+1 {
		t.Errorf("the tally has %d generations after %d days, want %d", got, days, days+1)
	}
	advance(t, c.Server, "192h")
	if v = check(); v.Findings[0].Sightings != 0 || v.Findings[0].Spam != 0 {
		t.Errorf("eight days later there are still %+v", v.Findings[0])
	}
	advance(t, c.Server, fmt.Sprint(9*7*24*time.Hour))
	if v = check(); v.Judged != bulkhead.Unjudged {
		t.Errorf("nine weeks later it is still %v", v.Judged)
	}

	at := advance(t, c.Server, "1s")
	for _, bad := range []string{"-1h", "0", "1e6h", "876000h", "soon", ""} {
		resp, err := http.Post(c.Server+"/v1/clock?advance="+bad, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode < 400 || resp.StatusCode > 499 {
			t.Errorf("advance=%s: %s", bad, resp.Status)
		}
	}
	if got := advance(t, c.Server, "1s"); got.Sub(at) > time.Minute {
		t.Errorf("what was refused moved the clock by %v", got.Sub(at))
	}
}

// advance moves the clock of a node, and returns the new time.
func advance(t *testing.T, server, by string) time.Time {
	t.Helper()
	resp, err := http.Post(server+"/v1/clock?advance="+by, "message/rfc822", strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var now struct{ Now time.Time }
	if err := json.NewDecoder(resp.Body).Decode(&now); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("advance=%s: %s, %v", by, resp.Status, err)
	}
	return now.Now
}
