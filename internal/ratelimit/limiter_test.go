package ratelimit

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
)

// request returns Attributes of name and value pairs.
func request(pairs ...string) Attributes {
	m := make(map[string][]byte)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = []byte(pairs[i+1])
	}
	return func(name string) []byte { return m[name] }
}

func rcpt(user, recipient string) Attributes {
	return request("protocol_state", "RCPT", "sasl_username", user, "recipient", recipient)
}

// testClock is a clock that tests can set.
type testClock struct{ now time.Time }

func (c *testClock) Now() time.Time { return c.now }

func open(t testing.TB, o Options) *Limiter {
	t.Helper()
	if o.Random == nil {
		// With a random secret, a new item would occasionally be mistaken for a known one.
		o.Random = rand.NewChaCha8([32]byte{1})
	}
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func limit(t testing.TB, l *Limiter, attr Attributes) string {
	t.Helper()
	action, text, err := l.Limit(context.Background(), attr)
	if err != nil {
		t.Fatal(err)
	}
	if (action == Dunno) != (text == "") {
		t.Fatalf("action %q with text %q", action, text)
	}
	return action
}

func recipients(limit float64) Rule {
	return Rule{Name: "rcpts", Key: "{sasl_username}", Unique: "{recipient}", Limit: limit, Period: time.Hour}
}

func TestUniqueRecipients(t *testing.T) {
	c := &testClock{epoch}
	l := open(t, Options{Rules: []Rule{recipients(10)}, Now: c.Now})
	for round := range 3 {
		for i := range 10 {
			// An address in different case is the same address.
			to := fmt.Sprintf("R%d@Example.com", i)
			if round%2 == 0 {
				to = strings.ToLower(to)
			}
			if got := limit(t, l, rcpt("ann", to)); got != Dunno {
				t.Fatalf("round %d, recipient %d: %s, want dunno", round, i, got)
			}
		}
	}
	if got := limit(t, l, rcpt("ann", "one-more@example.com")); got != Defer {
		t.Errorf("recipient 11: %s, want defer", got)
	}
	if got := limit(t, l, rcpt("ann", "r3@example.com")); got != Dunno {
		t.Errorf("a recipient seen before: %s, want dunno", got)
	}
	if got := limit(t, l, rcpt("bob", "one-more@example.com")); got != Dunno {
		t.Errorf("another account: %s, want dunno", got)
	}
	if got := limit(t, l, rcpt("", "one-more@example.com")); got != Dunno {
		t.Errorf("no account: %s, want dunno", got)
	}
	status, err := l.Show("", "Ann")
	if err != nil || len(status) != 1 || status[0].Rate != 10 || math.Abs(status[0].Items-10) > 1 {
		t.Errorf("Show = %+v, %v, want a rate of 10", status, err)
	}
	if n := l.Reset("", "ann"); n != 1 {
		t.Errorf("Reset = %d, want 1", n)
	}
	if got := limit(t, l, rcpt("ann", "one-more@example.com")); got != Dunno {
		t.Errorf("after Reset: %s, want dunno", got)
	}
	c.now = c.now.Add(2 * time.Hour)
	if got := limit(t, l, rcpt("bob", "x@example.com")); got != Dunno {
		t.Errorf("later: %s, want dunno", got)
	}
}

// TestRules checks that each kind of rule in the package comment counts what the comment states.
func TestRules(t *testing.T) {
	tests := []struct {
		name string
		rule Rule
		req  func(i int) Attributes
		want int // requests of 100 that are accepted
	}{
		{"senders of a host", Rule{Key: "{client_address}", Unique: "{sender}", Limit: 5},
			func(i int) Attributes {
				return request("client_address", "192.0.2.1", "sender", fmt.Sprintf("s%d@example.com", i))
			}, 5},
		{"bounces of a host are one sender", Rule{Key: "{client_address}", Unique: "{sender}", Limit: 2},
			func(i int) Attributes { return request("client_address", "192.0.2.1", "sender", "") }, 100},
		{"messages, two recipients each", Rule{Key: "{sasl_username}", Unique: "{instance}", Limit: 7},
			func(i int) Attributes {
				return request("protocol_state", "RCPT", "sasl_username", "ann", "instance", fmt.Sprint(i/2))
			}, 14},
		{"every request", Rule{Key: "{sasl_username}", Limit: 9},
			func(i int) Attributes { return rcpt("ann", "same@example.com") }, 9},
		{"bytes", Rule{Key: "{sasl_username}", Count: "{size}", Limit: 10_000},
			func(i int) Attributes {
				return request("protocol_state", "END-OF-MESSAGE", "sasl_username", "ann", "size", "1000")
			}, 10},
		{"bytes are not counted at RCPT", Rule{Key: "{sasl_username}", Count: "{size}", Limit: 10},
			func(i int) Attributes {
				return request("protocol_state", "RCPT", "sasl_username", "ann", "size", "1000")
			}, 100},
		{"size that is no number", Rule{Key: "{sasl_username}", Count: "{size}", Limit: 10},
			func(i int) Attributes { return request("sasl_username", "ann", "size", "-5") }, 100},
		{"alternatives", Rule{Key: "{sasl_username|client_address}", Limit: 3},
			func(i int) Attributes { return request("client_address", "192.0.2.1") }, 3},
		{"domain", Rule{Key: "{sender:domain}", Unique: "{recipient:local}", Limit: 4},
			func(i int) Attributes {
				return request("sender", fmt.Sprintf("u%d@example.com", i), "recipient", fmt.Sprintf("r%d@example.net", i))
			}, 4},
		{"network", Rule{Key: "{client_address:net}", Limit: 6},
			func(i int) Attributes { return request("client_address", fmt.Sprintf("192.0.2.%d", i)) }, 6},
		{"IPv6 network", Rule{Key: "{client_address:net}", Limit: 6},
			func(i int) Attributes { return request("client_address", fmt.Sprintf("2001:db8::%x", i)) }, 6},
		{"whitelisted network", Rule{Key: "{client_address}", Limit: 1,
			Exempt: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
			func(i int) Attributes { return request("client_address", "192.0.2.1") }, 100},
		{"whitelisted key", Rule{Key: "{sasl_username}", Limit: 1, ExemptKeys: []string{"Newsletter"}},
			func(i int) Attributes { return rcpt("newsletter", "a@example.com") }, 100},
		{"only measured", Rule{Key: "{sasl_username}", Limit: 1, Action: Dunno},
			func(i int) Attributes { return rcpt("ann", fmt.Sprint(i)) }, 100},
		{"a limit of 1, which an event alone reaches", Rule{Key: "{sasl_username}", Limit: 1},
			func(i int) Attributes { return rcpt("ann", fmt.Sprint(i)) }, 0},
		{"a size that reaches the limit alone", Rule{Key: "{sasl_username}", Count: "{size}", Limit: 1000},
			func(i int) Attributes { return request("sasl_username", "ann", "size", "1000") }, 0},
		{"recipients of messages, by their number", Rule{Key: "{sasl_username}", Count: "{recipient_count}", Limit: 100},
			func(i int) Attributes { return request("sasl_username", "ann", "recipient_count", "30") }, 3},
		{"strict", Rule{Key: "{sasl_username}", Unique: "{recipient}", Limit: 8, Strict: true},
			func(i int) Attributes { return rcpt("ann", fmt.Sprint(i)) }, 8},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.rule.Name, tt.rule.Period = "r", time.Hour
			l := open(t, Options{Rules: []Rule{tt.rule}, Now: (&testClock{epoch}).Now})
			passed := 0
			for i := range 100 {
				if limit(t, l, tt.req(i)) == Dunno {
					passed++
				}
			}
			if passed != tt.want {
				t.Errorf("%d of 100 requests passed, want %d", passed, tt.want)
			}
		})
	}
}

// TestLeakyAndStrict sends at three times the limit for ten periods: leaky admits the limit, strict
// admits nothing after the first.
func TestLeakyAndStrict(t *testing.T) {
	for _, strict := range []bool{false, true} {
		c := &testClock{epoch}
		r := recipients(100)
		r.Strict = strict
		l := open(t, Options{Rules: []Rule{r}, Now: c.Now})
		passed := 0
		for i := range 3000 {
			if limit(t, l, rcpt("ann", fmt.Sprintf("r%d@example.com", i))) == Dunno {
				passed++
			}
			c.now = c.now.Add(time.Hour / 300)
		}
		lo, hi := 950, 1150
		if strict {
			lo, hi = 90, 140
		}
		if passed < lo || passed > hi {
			t.Errorf("strict %v: %d of 3000 passed in ten periods, want %d to %d", strict, passed, lo, hi)
		}
	}
}

// TestSeveralRules checks that requests refused by one rule count in strict rules but not in leaky
// ones, and that the first refusal is the answer.
func TestSeveralRules(t *testing.T) {
	r := func(name, key string, limit float64, strict bool, action string) Rule {
		return Rule{Name: name, Key: key, Limit: limit, Period: time.Hour, Strict: strict, Action: action}
	}
	l := open(t, Options{Now: (&testClock{epoch}).Now, Rules: []Rule{
		r("leaky", "{sender}", 100, false, Defer),
		r("tight", "{sasl_username}", 3, false, Reject),
		r("strict", "{recipient}", 100, true, Hold),
		r("watch", "{client_address}", 2, false, Dunno),
	}})
	attr := request("sender", "s", "sasl_username", "ann", "recipient", "r", "client_address", "192.0.2.1")
	var last string
	for range 10 {
		last = limit(t, l, attr)
	}
	if last != Reject {
		t.Errorf("request 10: %s, want reject", last)
	}
	for _, want := range []struct {
		rule, key string
		rate      float64
	}{{"leaky", "s", 3}, {"tight", "ann", 3}, {"strict", "r", 10}, {"watch", "192.0.2.1", 2}} {
		got, err := l.Show(want.rule, want.key)
		if err != nil || len(got) != 1 || got[0].Rate != want.rate {
			t.Errorf("%s: %+v, %v, want a rate of %g", want.rule, got, err, want.rate)
		}
	}
	action, text, outcomes, err := l.Apply(attr)
	if err != nil || action != Reject || len(outcomes) != 4 || !outcomes[1].Over || outcomes[0].Over ||
		text != "limit of 3 per 1h reached" {
		t.Errorf("Apply = %q, %q, %+v, %v", action, text, outcomes, err)
	}
	if l.Stats.Requests.Load() != 11 || l.Stats.Refused.Load() != 8 {
		t.Errorf("%d requests, %d refused, want 11 and 8", l.Stats.Requests.Load(), l.Stats.Refused.Load())
	}
}

// TestAgainstExactCount compares many accounts with exact sets of their recipients; only the
// filter's error may make a difference.
func TestAgainstExactCount(t *testing.T) {
	const max = 50
	l := open(t, Options{Rules: []Rule{recipients(max)}, Now: (&testClock{epoch}).Now})
	random := rand.New(rand.NewPCG(5, 6))
	exact := make(map[string]map[string]bool)
	wrong, total := 0, 0
	for range 60_000 {
		user, to := fmt.Sprint("user", random.IntN(300)), fmt.Sprintf("r%d@example.com", random.IntN(80))
		set := exact[user]
		if set == nil {
			set = make(map[string]bool)
			exact[user] = set
		}
		want := Dunno
		if !set[to] && len(set) == max {
			want = Defer
		} else {
			set[to] = true
		}
		total++
		if limit(t, l, rcpt(user, to)) != want {
			wrong++
		}
	}
	// At most 0.06 % of the new items at the limit are mistaken for known ones; one error may
	// repeat while the same recipient comes again.
	if rate := float64(wrong) / float64(total); rate > 0.005 {
		t.Errorf("%d of %d answers differ from the exact count (%.2g)", wrong, total, rate)
	}
}

func TestRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rates")
	c := &testClock{epoch}
	o := Options{Rules: []Rule{recipients(10)}, Dir: dir, Now: c.Now}
	l := open(t, o)
	for u := range 500 {
		for i := range 10 {
			limit(t, l, rcpt(fmt.Sprint("user", u), fmt.Sprint(i)))
		}
	}
	if err := l.Save(); err != nil {
		t.Fatal(err)
	}
	l = open(t, o)
	for u := range 500 {
		if got := limit(t, l, rcpt(fmt.Sprint("user", u), "another")); got != Defer {
			t.Fatalf("user %d after the restart: %s, want defer", u, got)
		}
		if got := limit(t, l, rcpt(fmt.Sprint("user", u), "3")); got != Dunno {
			t.Fatalf("user %d, old recipient, after the restart: %s, want dunno", u, got)
		}
	}
	// A different memory or limit keeps the states; a different period or key does not.
	o.Rules[0].Memory = 1 << 20
	for _, limit := range []float64{10, 11, 5000, 1} {
		o.Rules[0].Limit = limit
		if got := open(t, o).Usage()[0].Keys; got != 500 {
			t.Errorf("with another memory and a limit of %g: %d keys, want 500", limit, got)
		}
	}
	for _, change := range []func(*Rule){
		func(r *Rule) { r.Period = time.Minute },
		func(r *Rule) { r.Key = "{sender}" },
		func(r *Rule) { r.Unique = "" },
	} {
		changed := o
		changed.Rules = []Rule{recipients(10)}
		change(&changed.Rules[0])
		l := open(t, changed)
		if got := l.Usage()[0].Keys; got != 0 || l.Stats.Faults.Load() != 1 {
			t.Errorf("%+v: %d keys and %d faults, want 0 and 1", changed.Rules[0], got, l.Stats.Faults.Load())
		}
		path := filepath.Join(dir, "rcpts"+stateFile)
		if err := os.Rename(path+asideFile, path); err != nil {
			t.Errorf("the file was not set aside: %v", err)
		}
	}
}

// TestLessMemory checks that a reload and a restart with less memory keep as many keys as fit, and
// prefer keys near their limit.
func TestLessMemory(t *testing.T) {
	o := Options{Rules: []Rule{recipients(1000)}, Dir: t.TempDir(), Now: (&testClock{epoch}).Now}
	l := open(t, o)
	for u := range 100 {
		for i := range 100 + 30*(u/90) {
			limit(t, l, rcpt(fmt.Sprint("user", u), fmt.Sprint(i)))
		}
	}
	if err := l.Save(); err != nil {
		t.Fatal(err)
	}
	check := func(l *Limiter) {
		t.Helper()
		if keys := l.Usage()[0].Keys; keys < 45 || keys > 75 || l.Stats.Faults.Load() != 0 {
			t.Errorf("%d keys of 100 and %d faults with half the memory, want about 60 and 0", keys, l.Stats.Faults.Load())
		}
		for u := 90; u < 100; u++ {
			if status, err := l.Show("", fmt.Sprint("user", u)); err != nil || len(status) != 1 || status[0].Items != 130 {
				t.Errorf("user %d, one of the busiest: %+v, %v", u, status, err)
			}
		}
	}
	less := recipients(1000)
	less.Memory = 64 << 10
	if err := l.Reload([]Rule{less}); err != nil {
		t.Fatal(err)
	}
	check(l)
	o.Rules = []Rule{less}
	check(open(t, o))
}

// TestHighLimit checks that a key's memory depends on the items it has used, not on its
// limit.
func TestHighLimit(t *testing.T) {
	var bytes []int64
	for _, most := range []float64{500, 1e6} {
		l := open(t, Options{Rules: []Rule{recipients(most)}, Now: (&testClock{epoch}).Now})
		for u := range 10_000 {
			for i := range 12 {
				limit(t, l, rcpt(fmt.Sprint("user", u), fmt.Sprint(i)))
			}
		}
		u := l.Usage()[0]
		if bytes = append(bytes, u.Bytes); u.Keys != 10_000 || u.Evicted != 0 {
			t.Errorf("limit %g: %d keys, %d evicted", most, u.Keys, u.Evicted)
		}
	}
	if bytes[0] != bytes[1] || bytes[1] > DefaultMemory/10 {
		t.Errorf("%d bytes for a limit of 500, %d for one of 1,000,000", bytes[0], bytes[1])
	}
}

// TestMeasureOnly checks that a rule with a limit of 0 counts everything, even requests that other
// rules refuse, and refuses nothing.
func TestMeasureOnly(t *testing.T) {
	events := 0
	l := open(t, Options{Now: (&testClock{epoch}).Now, Notify: func(Event) { events++ }, Rules: []Rule{
		{Name: "seen", Key: "{sasl_username}", Limit: 0, Period: time.Hour, Warn: 0.5, Action: Dunno},
		{Name: "few", Key: "{sasl_username}", Limit: 3, Period: time.Hour},
	}})
	for i := range 10 {
		action, _, outcomes, err := l.Apply(rcpt("ann", "bob"))
		if want := map[bool]string{true: Dunno, false: Defer}[i < 3]; err != nil || action != want ||
			outcomes[0].Rate != float64(i+1) || outcomes[0].Over || outcomes[0].Text != "" {
			t.Fatalf("event %d: %s, %+v, %v", i+1, action, outcomes, err)
		}
	}
	if events != 1 {
		t.Errorf("%d keys reported, want that of the other rule", events)
	}
}

// TestReloadSmallLimit checks that rates survive a reload with a limit whose states have no room
// for the items.
func TestReloadSmallLimit(t *testing.T) {
	r := recipients(1000)
	l := open(t, Options{Rules: []Rule{r}, Now: (&testClock{epoch}).Now})
	for i := range 50 {
		limit(t, l, rcpt("ann", fmt.Sprint(i)))
	}
	r.Limit = 3
	if err := l.Reload([]Rule{r}); err != nil {
		t.Fatal(err)
	}
	if status, err := l.Show("", "ann"); err != nil || len(status) != 1 || status[0].Rate != 50 || status[0].Limit != 3 {
		t.Errorf("%+v, %v, want the rate of 50", status, err)
	}
	if got := limit(t, l, rcpt("ann", "3")); got != Defer {
		t.Errorf("%s, want defer", got)
	}
}

// TestReloadIsSaved checks that states moved by a reload are saved even if nothing is counted
// afterwards.
func TestReloadIsSaved(t *testing.T) {
	o := Options{Rules: []Rule{recipients(10)}, Dir: t.TempDir(), Now: (&testClock{epoch}).Now}
	l := open(t, o)
	limit(t, l, rcpt("ann", "a"))
	o.Rules = []Rule{recipients(10)}
	o.Rules[0].Memory = 1 << 20
	if err := l.Reload(o.Rules); err != nil {
		t.Fatal(err)
	}
	if err := l.Save(); err != nil {
		t.Fatal(err)
	}
	if keys := open(t, o).Usage()[0].Keys; keys != 1 {
		t.Errorf("%d keys after the restart, want 1", keys)
	}
}

// TestReloadLowerLimit checks that keys are judged idle by the present limit.
func TestReloadLowerLimit(t *testing.T) {
	c := &testClock{epoch}
	r := Rule{Name: "r", Key: "{sasl_username}", Limit: 1e6, Period: time.Hour, Strict: true}
	l := open(t, Options{Rules: []Rule{r}, Now: c.Now})
	for range 500 {
		limit(t, l, rcpt("ann", "a"))
	}
	r.Limit = 100
	if err := l.Reload([]Rule{r}); err != nil {
		t.Fatal(err)
	}
	c.now = c.now.Add(time.Hour + time.Minute)
	(*l.rules.Load())[0].table.clean(c.now)
	if got := limit(t, l, rcpt("ann", "a")); got != Defer {
		t.Errorf("at 180 of 100: %s, want defer", got)
	}
}

// TestLeftovers checks that the half-written files of a killed node are removed.
func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".rcpts.rates.1234", ".secret.99", "rcpts.rates.unread", "notes"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open(t, Options{Rules: []Rule{recipients(10)}, Dir: dir})
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if got, want := fmt.Sprint(names), "[notes rcpts.rates.unread secret]"; got != want {
		t.Errorf("files %s, want %s", got, want)
	}
}

// TestKeysBeyondASCII checks that keys are found as the client wrote them: of all bytes, only A to
// Z are folded.
func TestKeysBeyondASCII(t *testing.T) {
	for _, key := range []string{"Änne@Example.com", "\xc4nne", "\u212aelvin"} {
		r := recipients(10)
		l := open(t, Options{Rules: []Rule{r}, Now: (&testClock{epoch}).Now})
		limit(t, l, rcpt(key, "a"))
		if status, err := l.Show("", key); err != nil || len(status) != 1 {
			t.Errorf("Show(%q) = %v, %v, want one status", key, status, err)
		}
		if n := l.Reset("", key); n != 1 {
			t.Errorf("Reset(%q) = %d, want 1", key, n)
		}
		r.ExemptKeys = []string{key}
		l = open(t, Options{Rules: []Rule{r}, Now: (&testClock{epoch}).Now})
		limit(t, l, rcpt(key, "a"))
		if n := l.Usage()[0].Keys; n != 0 {
			t.Errorf("exempt key %q was counted", key)
		}
	}
}

// TestDamagedFiles cuts and extends a state file and flips its bits: the limiter starts empty,
// whatever the file contains.
func TestDamagedFiles(t *testing.T) {
	dir := t.TempDir()
	o := Options{Rules: []Rule{recipients(10)}, Dir: dir, Now: (&testClock{epoch}).Now}
	l := open(t, o)
	for u := range 20 {
		limit(t, l, rcpt(fmt.Sprint("user", u), "a"))
	}
	if err := l.Save(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "rcpts"+stateFile)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	huge := append([]byte(nil), good...)
	binary.LittleEndian.PutUint32(huge[14:], 1<<31) // the size of a state
	damaged := map[string][]byte{
		"empty": {}, "zeros": make([]byte, 100), "huge state": huge,
		"longer": append(append([]byte(nil), good...), 0), "text": []byte("not a filter at all"),
	}
	for i := 0; i < len(good); i += 7 {
		flipped := append([]byte(nil), good...)
		flipped[i] ^= 0x10
		damaged[fmt.Sprint("flipped at ", i)] = flipped
		damaged[fmt.Sprint("cut at ", i)] = good[:i]
	}
	for name, content := range damaged {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		l := open(t, o)
		if keys := l.Usage()[0].Keys; keys != 0 || l.Stats.Faults.Load() != 1 {
			t.Errorf("%s: %d keys, %d faults, want 0 and 1", name, keys, l.Stats.Faults.Load())
		}
		if got := limit(t, l, rcpt("ann", "a")); got != Dunno {
			t.Errorf("%s: %s, want dunno", name, got)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, SecretFile), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(o); err == nil {
		t.Error("a secret of 5 bytes was taken")
	}
}

func TestReload(t *testing.T) {
	l := open(t, Options{Rules: []Rule{recipients(10)}, Now: (&testClock{epoch}).Now})
	for i := range 10 {
		limit(t, l, rcpt("ann", fmt.Sprint(i)))
	}
	other := Rule{Name: "other", Key: "{sender}", Limit: 1, Period: time.Minute}
	strict := recipients(10)
	strict.Strict, strict.Action, strict.Memory = true, Reject, 1<<20
	if err := l.Reload([]Rule{other, strict}); err != nil {
		t.Fatal(err)
	}
	if got := limit(t, l, rcpt("ann", "new")); got != Reject {
		t.Errorf("after Reload: %s, want reject", got)
	}
	for _, bad := range [][]Rule{
		{other, other}, {{Name: "x"}}, make([]Rule, maxRules+1),
	} {
		if err := l.Reload(bad); err == nil {
			t.Errorf("Reload took %d bad rules", len(bad))
		}
	}
	if n := len(l.Usage()); n != 2 {
		t.Errorf("%d rules after the bad ones, want 2", n)
	}
}

func TestBadRules(t *testing.T) {
	good := recipients(10)
	for _, tt := range []struct {
		change func(*Rule)
		want   string
	}{
		{func(r *Rule) { r.Name = "" }, "name"},
		{func(r *Rule) { r.Name = "../x" }, "name"},
		{func(r *Rule) { r.Key = "" }, "key is empty"},
		{func(r *Rule) { r.Key = "{user}" }, `unknown attribute "user"`},
		{func(r *Rule) { r.Key = "{sender" }, "without }"},
		{func(r *Rule) { r.Key = "sender}" }, "without {"},
		{func(r *Rule) { r.Key = "{sender:upper}" }, "modifier"},
		{func(r *Rule) { r.Unique = strings.Repeat("x", 2000) }, "limit 1024"},
		{func(r *Rule) { r.Limit = -1 }, "rate limit -1"},
		{func(r *Rule) { r.Limit = 0 }, "a limit of 0 only measures"},
		{func(r *Rule) { r.Limit = 1e12 }, "bytes a key"},
		{func(r *Rule) { r.Period = 0 }, "period"},
		{func(r *Rule) { r.Action = "drop" }, "action"},
		{func(r *Rule) { r.Action = Delay }, "delay 0s"},
		{func(r *Rule) { r.Action, r.Delay = Delay, time.Second+1 }, "whole seconds"},
		{func(r *Rule) { r.Action, r.Delay = Delay, MaxDelay+time.Second }, "delay 1m1s"},
		{func(r *Rule) { r.Delay = time.Second }, "a delay with the action"},
		{func(r *Rule) { r.State = "VRFY" }, "state"},
		{func(r *Rule) { r.Text = "a\nb" }, "control character"},
		{func(r *Rule) { r.Warn = -1 }, "warn"},
		{func(r *Rule) { r.Memory = 5 }, "memory"},
		{func(r *Rule) { r.Limit, r.Memory = 1e6, 1<<20 }, "holds 0 keys"},
		{func(r *Rule) { r.Exempt = []netip.Prefix{{}} }, "exempt"},
	} {
		r := good
		tt.change(&r)
		_, err := Open(Options{Rules: []Rule{r}})
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "ratelimit: ") {
			t.Errorf("%+v: error %v, want one with %q", r, err, tt.want)
		}
	}
}

// TestEvents checks that a key is reported once at each level, whatever it does.
func TestEvents(t *testing.T) {
	for _, strict := range []bool{false, true} {
		c := &testClock{epoch}
		var events []Event
		r := recipients(10)
		r.Warn, r.Strict, r.Text = 0.8, strict, "{key}: {rate} of {limit} in {period} by {rule}"
		l := open(t, Options{Rules: []Rule{r}, Now: c.Now, Notify: func(e Event) { events = append(events, e) }})
		for i := range 30 {
			limit(t, l, rcpt("ann", fmt.Sprint(i)))
		}
		if len(events) != 2 || events[0].Over || events[0].Rate != 8 || !events[1].Over || events[1].Key != "ann" {
			t.Errorf("strict %v: events %+v, want one at 8 and one above 10", strict, events)
		}
		c.now = c.now.Add(time.Hour)
		for i := range 30 {
			limit(t, l, rcpt("ann", fmt.Sprint("again", i)))
		}
		if events[len(events)-1].Time != c.now {
			t.Errorf("strict %v: a new rise a period later was not reported", strict)
		}
	}
}

// TestEventsClockWasAhead checks that a key is reported again after a clock that was ahead at its
// last report is corrected.
func TestEventsClockWasAhead(t *testing.T) {
	c := &testClock{epoch.Add(365 * 24 * time.Hour)}
	events := 0
	l := open(t, Options{Rules: []Rule{recipients(1)}, Now: c.Now, Notify: func(Event) { events++ }})
	for _, now := range []time.Time{c.now, epoch, epoch.Add(time.Minute)} {
		c.now = now
		for i := range 3 {
			limit(t, l, rcpt("ann", fmt.Sprint(now, i)))
		}
	}
	if events != 2 {
		t.Errorf("%d events, want one before the clock was set right and one after", events)
	}
}

// TestEventsOfOthersRefusals checks that a request refused by another rule causes no warning for
// the rate that it would have had.
func TestEventsOfOthersRefusals(t *testing.T) {
	var events []Event
	l := open(t, Options{Now: (&testClock{epoch}).Now, Notify: func(e Event) { events = append(events, e) }, Rules: []Rule{
		{Name: "rcpts", Key: "{recipient}", Limit: 1.5, Period: time.Hour},
		{Name: "bytes", Key: "{sasl_username}", Count: "{size}", State: AnyState, Limit: 1000, Period: time.Hour, Warn: 0.8},
	}})
	for _, size := range []string{"500", "400", "450"} {
		limit(t, l, request("sasl_username", "ann", "recipient", "bob", "size", size))
	}
	if len(events) != 1 || events[0].Rule != "rcpts" {
		t.Errorf("events %+v, want one of the rule that refuses", events)
	}
	if limit(t, l, request("sasl_username", "ann", "recipient", "eve", "size", "400")); len(events) != 2 ||
		events[1].Rule != "bytes" || events[1].Rate != 900 {
		t.Errorf("events %+v, want one of the bytes at 900", events)
	}
}

func TestReplyText(t *testing.T) {
	r := recipients(2)
	r.Text = "{key}: {rate} of {limit} in {period} by {rule}"
	l := open(t, Options{Rules: []Rule{r}, Now: (&testClock{epoch}).Now})
	var text string
	for i := range 3 {
		_, text, _ = l.Limit(context.Background(), rcpt("ann\r\nx=\xff", fmt.Sprint(i)))
	}
	if want := "ann??x=?: 3 of 2 in 1h by rcpts"; text != want {
		t.Errorf("text %q, want %q", text, want)
	}
}

// TestReplyToLongKey checks that a reply fits a line, however long a client's name is: Postfix
// treats a reply of 2048 bytes as a fault of the server.
func TestReplyToLongKey(t *testing.T) {
	r := Rule{Name: "r", Key: "{helo_name}", Limit: 1, Period: time.Hour, Action: Reject,
		Text: "{key} has sent {rate} of {limit}"}
	var logged strings.Builder
	l := open(t, Options{Rules: []Rule{r}, Now: (&testClock{epoch}).Now, Log: slog.New(slog.NewTextHandler(&logged, nil))})
	var text string
	for range 2 {
		_, text, _ = l.Limit(context.Background(), request("helo_name", strings.Repeat("x", 5000)))
	}
	if len(text) > 512 || !strings.HasSuffix(text, "xxx... has sent 1 of 1") {
		t.Errorf("reply of %d bytes: %q", len(text), text)
	}
	if logged.Len() > 1000 {
		t.Errorf("log line of %d bytes", logged.Len())
	}
}

func TestWebhook(t *testing.T) {
	got := make(chan Event, 10)
	status := http.StatusNoContent
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e Event
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
		got <- e
	}))
	defer server.Close()
	var logged strings.Builder
	w := NewWebhook(server.URL, nil, slog.New(slog.NewTextHandler(&logged, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { w.Run(ctx) })
	w.Notify(Event{Rule: "rcpts", Key: "ann", Rate: 11, Limit: 10, Over: true})
	if e := <-got; e.Rule != "rcpts" || e.Key != "ann" || !e.Over {
		t.Errorf("the hook got %+v", e)
	}
	cancel()
	run.Wait()
	for range webhookQueue + 5 {
		w.Notify(Event{})
	}
	if w.Dropped.Load() != 5 {
		t.Errorf("%d events dropped, want 5", w.Dropped.Load())
	}
	if n := strings.Count(logged.String(), "webhook does not keep up"); n != 1 {
		t.Errorf("the log says %d times that events are dropped, want once: %s", n, logged.String())
	}
}

// TestRun checks that states are saved in the background and at the end.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		o := Options{Rules: []Rule{recipients(10)}, Dir: dir}
		l := open(t, o)
		limit(t, l, rcpt("ann", "a"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		bubble.Advance(DefaultCheckpoint + time.Second)
		synctest.Wait()
		if keys := open(t, o).Usage()[0].Keys; keys != 1 {
			t.Errorf("%d keys saved after a minute, want 1", keys)
		}
		limit(t, l, rcpt("bob", "a"))
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if keys := open(t, o).Usage()[0].Keys; keys != 2 {
			t.Errorf("%d keys saved at the end, want 2", keys)
		}
	})
}

// TestConcurrent counts from many goroutines while states are saved and cleaned: exactly the limit
// passes.
func TestConcurrent(t *testing.T) {
	l := open(t, Options{Dir: t.TempDir(), Now: (&testClock{epoch}).Now, Rules: []Rule{
		{Name: "a", Key: "{sasl_username}", Limit: 1000, Period: time.Hour},
		{Name: "b", Key: "{recipient}", Limit: 1e9, Period: time.Hour, Strict: true},
	}})
	var wg sync.WaitGroup
	var mu sync.Mutex
	passed := 0
	for g := range 8 {
		wg.Go(func() {
			n := 0
			for i := range 500 {
				if limit(t, l, rcpt("ann", fmt.Sprint(g, i%10))) == Dunno {
					n++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			passed += n
		})
	}
	wg.Go(func() {
		for range 20 {
			if err := l.Save(); err != nil {
				t.Error(err)
			}
			(*l.rules.Load())[0].table.clean(epoch)
			l.Usage()
		}
	})
	wg.Wait()
	if passed != 1000 {
		t.Errorf("%d requests passed, want 1000", passed)
	}
}

func FuzzDecodeStates(f *testing.F) {
	u, err := filter.NewUniqueRate(filter.UniqueRateConfig{Limit: 40, Period: time.Hour, Mode: filter.Strict})
	if err != nil {
		f.Fatal(err)
	}
	tab, err := newTable(u, u.MaxStateBytes(), 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	for i := range uint64(5) {
		for n := range 1 + 15*i {
			count(f, tab, i<<40, epoch, fmt.Sprint(n))
		}
	}
	var good strings.Builder
	if err := u.EncodeStates(&good, tab.all()); err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(good.String()))
	f.Add([]byte(good.String()[:30]))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		fresh, err := newTable(u, u.MaxStateBytes(), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		err = decodeStates(u, strings.NewReader(string(data)), 1<<20,
			func(tag uint64, state []byte) { fresh.put(tag, state) })
		if err != nil {
			return
		}
		for key, state := range fresh.all() {
			if err := u.Validate(state); err != nil || binary.LittleEndian.Uint64(key)&^tagMask != 0 {
				t.Fatalf("took state %x of key %x: %v", state, key, err)
			}
		}
	})
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"{sender}", "x{sender|recipient:domain}y", "{", "}", "{}", "{client_address:net}"} {
		f.Add(s, "ann@example.com")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		tmpl, err := ParseTemplate(text)
		if err != nil {
			return
		}
		out, ok := tmpl.append(nil, func(string) []byte { return []byte(value) }, true)
		if ok && len(out) > len(text)*(len(value)+2) {
			t.Errorf("%q of %q gives %d bytes", text, value, len(out))
		}
	})
}

func BenchmarkLimit(b *testing.B) {
	for _, rules := range []int{1, 4} {
		var all []Rule
		for i := range rules {
			r := recipients(100)
			r.Name = fmt.Sprint("r", i)
			all = append(all, r)
		}
		b.Run(fmt.Sprint("rules", rules), func(b *testing.B) {
			l := open(b, Options{Rules: all})
			user, to := []byte("user0000@example.com"), []byte("rcpt0000@example.com")
			attr := func(name string) []byte {
				switch name {
				case "sasl_username":
					return user
				case "recipient":
					return to
				case "protocol_state":
					return []byte("RCPT")
				}
				return nil
			}
			b.ReportAllocs()
			for i := range b.N {
				binary.LittleEndian.PutUint32(user[4:], uint32(i%50000))
				to[4] = byte(i)
				if _, _, err := l.Limit(context.Background(), attr); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkManyItems counts recipients of 10,000 keys that already have some, with a low limit and
// with a high one. Only the comparison of the two (benchstat) is meaningful.
func BenchmarkManyItems(b *testing.B) {
	for _, items := range []int{10, 100} {
		for _, most := range []float64{500, 1e6} {
			b.Run(fmt.Sprintf("items=%d/limit=%.0f", items, most), func(b *testing.B) {
				const keys = 10_000
				l := open(b, Options{Rules: []Rule{recipients(most)}, Now: (&testClock{epoch}).Now})
				user, to := []byte("user0000@example.com"), []byte("rcpt0000@example.com")
				attr := func(name string) []byte {
					switch name {
					case "sasl_username":
						return user
					case "recipient":
						return to
					}
					return nil
				}
				event := func(i int) {
					binary.LittleEndian.PutUint32(user[4:], uint32(i%keys))
					binary.LittleEndian.PutUint32(to[4:], uint32(i/keys%items))
					if _, _, err := l.Limit(context.Background(), attr); err != nil {
						b.Fatal(err)
					}
				}
				for i := range keys * items {
					event(i)
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					event(i)
				}
				u := l.Usage()[0]
				b.ReportMetric(float64(u.Bytes)/(1<<20), "MiB")
				b.ReportMetric(float64(u.Evicted)/float64(keys), "evicted/key")
			})
		}
	}
}

// TestMissingState checks that a missing state is a fault if it was saved before, and no fault for
// a new rule.
func TestMissingState(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rates")
	o := Options{Rules: []Rule{recipients(10)}, Dir: dir, Now: (&testClock{epoch}).Now}
	l := open(t, o)
	if n := l.Stats.Faults.Load(); n != 0 {
		t.Errorf("%d faults of a new rule", n)
	}
	limit(t, l, rcpt("user", "1"))
	if err := l.Save(); err != nil {
		t.Fatal(err)
	}
	if faults, read := Inspect(dir, o.Rules); len(faults) != 0 || read != 2 {
		t.Errorf("%v, %d files read; want none and 2", faults, read)
	}
	if err := os.Remove(filepath.Join(dir, "rcpts"+stateFile)); err != nil {
		t.Fatal(err)
	}
	if faults, _ := Inspect(dir, o.Rules); len(faults) != 1 {
		t.Errorf("%v, want one fault", faults)
	}
	if n := open(t, o).Stats.Faults.Load(); n != 1 {
		t.Errorf("%d faults of a state that is missing, want 1", n)
	}
}
