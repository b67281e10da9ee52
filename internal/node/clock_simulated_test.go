//go:build simclock

package node

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/node/manage"
	"github.com/bulkhead-mail/bulkhead/internal/trial"
)

// asItWas restores the clock of the process when the test has ended.
func asItWas(t *testing.T) {
	before := time.Until(clock.Now())
	t.Cleanup(func() {
		// The time lost by reading two clocks is not worth an error.
		if moved := time.Until(clock.Now()) - before; moved > 0 {
			_ = clock.Retreat(moved)
		} else {
			_ = clock.Advance(-moved)
		}
	})
}

// TestClockMoves lets days pass for a node, as its clients do. Counts after an advance are in a new
// daily generation at once, and everything expires in due time.
func TestClockMoves(t *testing.T) {
	asItWas(t)
	n, _ := start(t, Options{Config: httpDoor(t), Dir: filepath.Join(t.TempDir(), "data")})
	c := admin.New(address(t, n, "http"), "")
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
	var state admin.NodeState
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
	for _, bad := range []string{"advance=-1h", "advance=0", "advance=1e6h", "advance=876000h", "advance=soon",
		"advance=", "", "back=-1h", "back=0", "back=876000h", "back=", "back=1h&advance=1h"} {
		resp, err := http.Post(c.Server+"/v1/clock?"+bad, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode < 400 || resp.StatusCode > 499 {
			t.Errorf("%s: %s", bad, resp.Status)
		}
	}
	if got := advance(t, c.Server, "1s"); got.Sub(at) > time.Minute {
		t.Errorf("what was refused moved the clock by %v", got.Sub(at))
	}
}

// advance moves the clock of a node, and returns the new time.
func advance(t *testing.T, server, by string) time.Time {
	t.Helper()
	return move(t, server, "advance", by)
}

// move is advance, or the way back.
func move(t *testing.T, server, way, by string) time.Time {
	t.Helper()
	resp, err := http.Post(server+"/v1/clock?"+way+"="+by, "message/rfc822", strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var now struct{ Now time.Time }
	if err := json.NewDecoder(resp.Body).Decode(&now); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s=%s: %s, %v", way, by, resp.Status, err)
	}
	return now.Now
}

// TestClockBothWays moves the clock of a running node forward and back by minutes to days. A plain
// map has the expected counts and the expected refusals of a limit of five an hour.
func TestClockBothWays(t *testing.T) {
	asItWas(t)
	const furthest, signatures = 12 * 24 * time.Hour, 40
	cfg := parse(
		t, "[listen]\nhttp = \"127.0.0.1:0\"\ndccifd = \"127.0.0.1:0\"\n[http]\nanonymous_report = \"loopback\"\n"+
			"[tally]\nkeep = 40\n"+
			"[dccifd]\ngreylist = true\n[mesh]\nmode = \"hub\"\nlisten = \"127.0.0.1:0\"\n[[ratelimit]]\n"+
			"name = \"r\"\nkey = \"{sender}\"\nlimit = 5\nperiod = \"1h\"\n")
	dir := filepath.Join(t.TempDir(), "data")
	n, stop := start(t, Options{Config: cfg, Dir: dir})
	c := admin.New(address(t, n, "http"), "")
	rng := rand.New(rand.NewPCG(16, 4))
	sigs, want := make([]bulkhead.Signature, signatures), make([]uint32, signatures)
	for i := range sigs {
		sig, err := bulkhead.ParseSignature(fmt.Sprintf("pyzor/digest:%040x", i+1))
		if err != nil {
			t.Fatal(err)
		}
		sigs[i] = sig
	}
	refused := func(user string) bool {
		t.Helper()
		mta := manage.NewMTA(n.mta.limits, n.mta.lists)
		d, err := mta.ApplyRateLimits(t.Context(), map[string]string{"sender": user}, false)
		if err != nil {
			t.Fatal(err)
		}
		return d.Action != "dunno"
	}
	compare := func(when string) {
		t.Helper()
		seen := make([]bulkhead.Look, signatures)
		if err := c.Look(t.Context(), sigs, seen, bulkhead.Counts); err != nil {
			t.Fatal(err)
		}
		for i := range seen {
			if seen[i].Sightings != want[i] {
				t.Fatalf("%s: signature %d has %d sightings, want %d", when, i, seen[i].Sightings, want[i])
			}
		}
	}
	ahead := time.Duration(0)
	for step := range 60 {
		by := time.Duration(1 + rng.Int64N(int64([]time.Duration{time.Minute, 3 * time.Hour,
			3 * 24 * time.Hour}[rng.IntN(3)])))
		way := "advance"
		if back := rng.IntN(2) == 0; back && ahead-by > -furthest || ahead+by > furthest {
			way, ahead = "back", ahead-by
		} else {
			ahead += by
		}
		before := clock.Now()
		if now := move(t, c.Server, way, by.String()); now.After(before) != (way == "advance") {
			t.Fatalf("%s by %v: from %v to %v", way, by, before, now)
		}
		when := fmt.Sprintf("step %d, %s by %v, %v ahead", step, way, by, ahead)
		compare(when)
		counts := make([]uint32, 1+rng.IntN(5))
		at := rng.IntN(signatures - len(counts))
		for i := range counts {
			counts[i] = 1 + rng.Uint32N(3)
			want[at+i] += counts[i]
		}
		if err := c.Count(t.Context(), sigs[at:at+len(counts)], counts); err != nil {
			t.Fatal(err)
		}
		compare(when + ", counted")
		// A new user has five, whatever the time; a step back of less than the period gives no user
		// more.
		user := fmt.Sprintf("user%d@example.com", step)
		for i := range 7 {
			if got := refused(user); got != (i >= 5) {
				t.Fatalf("%s: message %d of a new user is refused: %v", when, i, got)
			}
		}
		short := time.Duration(1 + rng.Int64N(int64(50*time.Minute)))
		move(t, c.Server, "back", short.String())
		if !refused(user) {
			t.Fatalf("%s: back by %v lets a user send who may not", when, short)
		}
		// Forward again is time that passes, and restores the allowance of that time.
		move(t, c.Server, "advance", short.String())
		extra, most := 0, 5*short.Hours()+1
		for range 7 {
			if !refused(user) {
				extra++
			}
		}
		if float64(extra) > most {
			t.Fatalf("%s: back and forth by %v gives a user %d more messages, want at most %.1f", when, short, extra, most)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if x, err := Examine(t.Context(), cfg, dir); err != nil || !x.Sound() {
		t.Errorf("in the end: %+v, %v", x, err)
	}
	n, _ = start(t, Options{Config: cfg, Dir: dir})
	c.Server = address(t, n, "http")
	compare("after a restart")
}

// TestClockRow checks that a node whose clock runs ahead has a red row for it.
func TestClockRow(t *testing.T) {
	asItWas(t)
	n, _ := start(t, Options{Config: httpDoor(t), Dir: filepath.Join(t.TempDir(), "data")})
	c := admin.New(address(t, n, "http"), "")
	for _, moved := range []bool{false, true} {
		if moved {
			advance(t, c.Server, "24h")
		}
		rows, err := (&trial.Prober{Node: c}).Doors(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(rows, func(r trial.Row) bool { return r.Name == "clock" })
		if at < 0 || rows[at].OK == moved || moved && !strings.Contains(rows[at].Found, "ahead of this machine's") {
			t.Errorf("moved %v: %+v", moved, rows)
		}
	}
}
