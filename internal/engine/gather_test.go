package engine

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// TestGatherings: the log reports gatherings of voters without enough weight at 5, 10 and 20
// voters, for each side, and reports none where the votes succeed.
func TestGatherings(t *testing.T) {
	for _, vote := range []bulkhead.Vote{bulkhead.Spam, bulkhead.Ham, bulkhead.Revocation} {
		var log bytes.Buffer
		c := newClock()
		e := open(t, Options{Now: c.Now, Log: slog.New(slog.NewTextHandler(&log, nil))})
		votersOf(t, e)
		s := sig(bulkhead.Exact, 1)
		if vote != bulkhead.Spam {
			for _, name := range []string{"a", "b"} {
				report(t, e, by(name, bulkhead.Spam, s))
			}
		}
		var want []int
		for n := 1; n <= 23; n++ {
			name := fmt.Sprint("stranger-", n)
			put(t, e, name, trust.Member, 0.05, netip.AddrFrom4([4]byte{198, 18, byte(100 + n), 1}))
			r := by(name, vote, s)
			report(t, e, r)
			report(t, e, r) // a repeated vote adds no voter
			if n == 5 || n == 10 || n == 20 {
				want = append(want, n)
			}
			if got := strings.Count(log.String(), "voters="); got != len(want) {
				t.Fatalf("%v: %d lines after %d voters, want %d:\n%s", vote, got, n, len(want), log.String())
			}
		}
		if !strings.Contains(log.String(), "latest=stranger-20") ||
			!strings.Contains(log.String(), fmt.Sprint("vote=", vote)) {
			t.Errorf("%v: %s", vote, log.String())
		}
		if got := e.Info().Gatherings; got != 3 {
			t.Errorf("%v: %d counted, want 3", vote, got)
		}
	}
}

// TestWarnings: the log reports votes against a known sender from the first one on, votes that list
// widely received mail, the second vote against a known network, repeated listings, and many
// excuses by voters who did not receive the mail. It reports nothing if one user reports a new
// message.
func TestWarnings(t *testing.T) {
	var log bytes.Buffer
	c := newClock()
	e := open(t, Options{Now: c.Now, Log: slog.New(slog.NewTextHandler(&log, nil))})
	votersOf(t, e)
	named := func(s string) bulkhead.Signature { return bulkhead.NamedSignature(bulkhead.Sender, s) }
	letter := []bulkhead.Signature{sig(bulkhead.Exact, 1), named("known.example"), named("ann@known.example")}
	for range 4 {
		var to []string
		for i := range 30 {
			to = append(to, fmt.Sprint("user", i, "@here.example"))
		}
		report(t, e, bulkhead.Report{Signatures: letter, Recipients: to, Count: 30})
		c.Advance(24 * time.Hour)
	}
	says := func(what string, lines int, r bulkhead.Report) {
		t.Helper()
		c.Advance(time.Hour) // no line is left out
		log.Reset()
		report(t, e, r)
		if got := strings.Count(log.String(), "voters="); got != lines || !strings.Contains(log.String(), what) {
			t.Errorf("want %d lines with %q: %s", lines, what, log.String())
		}
	}
	says("", 0, by("a", bulkhead.Spam, sig(bulkhead.Exact, 2), named("new.example"), named("bob@new.example")))
	says("sender of good standing", 2, by("a", bulkhead.Spam, letter...))
	if !strings.Contains(log.String(), "many received") {
		t.Errorf("one vote lists what 30 received every day: %s", log.String())
	}
	says("", 0, by("a", bulkhead.Spam, letter...))
	for turn := range 8 {
		lines, what := 0, ""
		if turn == 3 || turn == 7 {
			lines, what = 1, fmt.Sprint("turns=", turn+1)
		}
		says(what, lines, by("a", bulkhead.Spam, sig(bulkhead.Exact, 3)))
		says("", 0, by("a", bulkhead.Ham, sig(bulkhead.Exact, 3)))
	}
	for n := 1; n <= 6; n++ {
		put(t, e, fmt.Sprint("stranger-", n), trust.Member, 0.05, netip.AddrFrom4([4]byte{198, 18, byte(100 + n), 1}))
		lines, what := 0, ""
		if n == 5 {
			lines, what = 1, "voters=5"
		}
		says(what, lines, by(fmt.Sprint("stranger-", n), bulkhead.Ham, sig(bulkhead.Exact, 4)))
	}
	network := bulkhead.NamedSignature(bulkhead.Network, "192.0.2.0/24")
	for day := range 2 {
		report(t, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 10+day), network},
			Recipients: []string{"ann@here.example", "bob@here.example"}, Count: 2})
		c.Advance(24 * time.Hour)
	}
	says("", 0, by("a", bulkhead.Spam, sig(bulkhead.Exact, 20), network))
	says("network that is known", 1, by("b", bulkhead.Spam, sig(bulkhead.Exact, 21), network))
}

// TestSpreads: a letter of a known sender who seldom writes is named when five have it, once, and
// before strangers and others make it bulk. The log does not name letters of senders who write to
// many or are unknown, or repeated copies to one mailbox. One user who wants it ends that it is
// bulk, and one who does not makes it bulk again.
func TestSpreads(t *testing.T) {
	var log bytes.Buffer
	c := newClock()
	e := open(t, Options{Now: c.Now, Log: slog.New(slog.NewTextHandler(&log, nil))})
	votersOf(t, e)
	mail := func(text int, domain string) []bulkhead.Signature {
		return []bulkhead.Signature{sig(bulkhead.Exact, text), bulkhead.NamedSignature(bulkhead.Sender, domain),
			bulkhead.NamedSignature(bulkhead.Sender, "ann@"+domain)}
	}
	deliver := func(m []bulkhead.Signature, from, n int) {
		t.Helper()
		for i := range n {
			report(t, e, bulkhead.Report{Signatures: m, Recipients: []string{fmt.Sprint("user", from+i, "@here.example")}})
		}
	}
	for day := range 3 {
		deliver(mail(100+day, "seldom.example"), 0, 2)
		deliver(mail(200+day, "many.example"), 0, 10)
		c.Advance(24 * time.Hour)
	}
	for i, tt := range []struct {
		domain string
		says   bool
	}{{"seldom.example", true}, {"many.example", false}, {"new.example", false}} {
		m := mail(300+i, tt.domain)
		deliver(m, 0, 4)
		deliver(m, 0, 4)
		if strings.Contains(log.String(), "reaches") {
			t.Fatalf("%s: after four have a letter: %s", tt.domain, log.String())
		}
		deliver(m, 4, 5)
		lines := strings.Count(log.String(), "reaches")
		if want := map[bool]int{true: 1}[tt.says]; lines != want {
			t.Errorf("%s: %d lines, want %d: %s", tt.domain, lines, want, log.String())
		}
		if tt.says && !strings.Contains(log.String(), "deliveries=5") {
			t.Errorf("%s: it is not named with the fifth: %s", tt.domain, log.String())
		}
		for n := range 12 {
			name := fmt.Sprint("stranger-", i, "-", n)
			put(t, e, name, trust.Member, 0.05, netip.AddrFrom4([4]byte{198, 18, byte(100 + n), 1}))
			report(t, e, by(name, bulkhead.Sighting, m...))
		}
		if v := verdictOf(t, e, m...); v.Class == bulkhead.ClassBulk {
			t.Errorf("%s: nine recipients and strangers make it bulk: %q", tt.domain, v.Reasons)
		}
		deliver(m, 9, 1)
		if v := verdictOf(t, e, m...); v.Class != bulkhead.ClassBulk || !v.Unwanted() {
			t.Errorf("%s: class %v of what twenty have seen", tt.domain, v.Class)
		}
		log.Reset()
		known := tt.domain != "new.example"
		for _, vote := range []bulkhead.Vote{bulkhead.Ham, bulkhead.Spam} {
			report(t, e, by("a", vote, m...))
			v := verdictOf(t, e, m...)
			if wanted := known && vote == bulkhead.Ham; (v.Class == bulkhead.ClassGood) != wanted ||
				v.Class == bulkhead.ClassGood && v.Unwanted() {
				t.Errorf("%s, after a vote %v: class %v", tt.domain, vote, v.Class)
			}
		}
		log.Reset()
	}
}

// TestPeersGather: if peers together list mail of a known sender, or widely received mail, the log
// reports it with the next copy, at weights of 1/2, 1, 2 and so on, and before the peers succeed,
// once for each weight. It does not report unknown mail, or mail that a local user has also
// reported.
func TestPeersGather(t *testing.T) {
	ctx := t.Context()
	var log bytes.Buffer
	c := newClock()
	e := open(t, Options{Now: c.Now, Log: slog.New(slog.NewTextHandler(&log, nil))})
	votersOf(t, e)
	mail := func(text int, domain string) []bulkhead.Signature {
		return []bulkhead.Signature{sig(bulkhead.Exact, text), bulkhead.NamedSignature(bulkhead.Sender, domain),
			bulkhead.NamedSignature(bulkhead.Sender, "news@"+domain)}
	}
	known, lone, many, unknown := mail(1, "known.example"), mail(2,
		"known.example"), []bulkhead.Signature{sig(bulkhead.Exact, 3)}, mail(4, "new.example")
	recipients := 0
	deliver := func(m []bulkhead.Signature, n int) {
		t.Helper()
		for range n {
			recipients++
			report(t, e, bulkhead.Report{Signatures: m, Recipients: []string{fmt.Sprint("user", recipients, "@here.example")}})
		}
	}
	for day := range 3 {
		deliver(mail(100+day, "known.example"), 30)
		c.Advance(24 * time.Hour)
	}
	deliver(many, 25)
	liar := open(t, Options{Now: c.Now})
	if err := liar.Record(ctx, true); err != nil {
		t.Fatal(err)
	}
	for _, m := range [][]bulkhead.Signature{known, lone, many, unknown} {
		report(t, liar, bulkhead.Report{Signatures: m[:1], Vote: bulkhead.Spam})
	}
	lies, _, err := liar.TakeRounds(ctx)
	if err != nil {
		t.Fatal(err)
	}
	report(t, e, by("a", bulkhead.Spam, lone...))
	noted := map[string]int{}
	for peers := 1; peers <= 8; peers++ {
		var origins []Origin
		for i := range peers {
			origins = append(origins, Origin{ID: fmt.Sprint("liar", i), Weight: 0.25})
		}
		if err := e.SetOrigins(ctx, origins); err != nil {
			t.Fatal(err)
		}
		if err := applyParts(e, origins[peers-1].ID, lies); err != nil {
			t.Fatal(err)
		}
		c.Advance(time.Minute) // no line is left out
		for name, m := range map[string][]bulkhead.Signature{"known": known, "lone": lone, "many": many, "unknown": unknown} {
			log.Reset()
			wasSpam := verdictOf(t, e, m...).Class == bulkhead.ClassSpam
			deliver(m, 2)
			lines := strings.Count(log.String(), "peers list together")
			noted[name] += lines
			if lines == 1 && (wasSpam || !strings.Contains(log.String(), fmt.Sprint("peers=", 0.25*float64(peers), " ")) ||
				!strings.Contains(log.String(), "vote=spam")) {
				t.Errorf("%s, spam %v with %d peers: %s", name, wasSpam, peers, log.String())
			}
			if name == "known" && lines != map[int]int{2: 1, 4: 1, 8: 1}[peers] {
				t.Errorf("%d lines of a known sender's mail with %d peers: %s", lines, peers, log.String())
			}
			if name == "many" && peers == 2 && lines != 1 {
				t.Errorf("%d lines of what many received with %d peers: %s", lines, peers, log.String())
			}
		}
	}
	if noted["lone"]+noted["unknown"] > 0 || noted["known"] != 3 {
		t.Errorf("noted %v", noted)
	}
	if class := verdictOf(t, e, known...).Class; class == bulkhead.ClassSpam {
		t.Error("eight peers have their way: nothing was measured")
	}
}

// TestGatheringsFillNoLog: many disputes make few lines, and the next line has the number of
// omitted ones.
func TestGatheringsFillNoLog(t *testing.T) {
	var log bytes.Buffer
	c := newClock()
	e := open(t, Options{Now: c.Now, Log: slog.New(slog.NewTextHandler(&log, nil))})
	votersOf(t, e)
	for n := range 5 {
		put(t, e, fmt.Sprint("stranger-", n), trust.Member, 0.05, netip.AddrFrom4([4]byte{198, 18, byte(100 + n), 1}))
	}
	quarrel := func(text int) {
		for n := range 5 {
			report(t, e, by(fmt.Sprint("stranger-", n), bulkhead.Spam, sig(bulkhead.Exact, text)))
		}
	}
	for text := range 100 {
		quarrel(text)
	}
	if got := strings.Count(log.String(), "voters="); got != 10 {
		t.Errorf("%d lines of 100 quarrels at once, want 10", got)
	}
	c.Advance(time.Minute)
	if quarrel(1000); !strings.Contains(log.String(), "unsaid=90") {
		t.Errorf("the next line does not say how many are missing: %s", log.String())
	}
}
