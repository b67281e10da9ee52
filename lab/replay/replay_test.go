package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mailbox"
	"github.com/bulkhead-mail/bulkhead/internal/testing/sharedtest"
)

var replayStart = time.Date(2024, 2, 1, 0, 0, 0, 0, time.UTC)

// wave is a spam mailing: each copy greets another recipient and has another
// link and number.
func wave(n int) []byte {
	return fmt.Appendf(nil, "From: shop%d@example.net\nTo: user%d@example.com\nSubject: offer %d\n\nDear user%d,\n\n"+
		"our warehouse sells refurbished submarines at half the usual price. Every hull comes with two\n"+
		"periscopes, a brass bell and a year of free torpedo inspections. Order before the tide turns and\n"+
		"receive an inflatable captain at no cost. Visit http://s%d.example.net/?id=%d today.\n", n, n, n, n, n, n*7919)
}

// note is a piece of personal mail, unlike any other.
func note(n int) []byte {
	words := strings.Fields("apple bridge candle desert engine forest garden hammer island jacket kettle ladder mirror " +
		"needle orange pepper quarry ribbon saddle temple")
	var b strings.Builder
	fmt.Fprintf(&b, "From: ann@example.com\nTo: bob@example.com\nSubject: note %d\n\n", n)
	for i := range 40 {
		b.WriteString(words[(n*(i+3)+i*i*(n%7+1))%len(words)] + " ")
	}
	return []byte(b.String())
}

func slice(mail ...Mail) iter.Seq2[Mail, error] {
	return func(yield func(Mail, error) bool) {
		for _, m := range mail {
			if !yield(m, nil) {
				return
			}
		}
	}
}

// waveAmong returns spam copies an hour apart among as many notes.
func waveAmong(copies int) []Mail {
	var mail []Mail
	for i := range copies {
		at := replayStart.Add(time.Duration(i) * time.Hour)
		mail = append(mail,
			Mail{Name: fmt.Sprintf("spam-%d", i), Time: at, Spam: true, Raw: wave(i)},
			Mail{Name: fmt.Sprintf("ham-%d", i), Time: at.Add(time.Minute), Raw: note(i)})
	}
	return mail
}

// TestReplayWave has a known outcome: reports come half an hour to an hour and a half after
// the first copy, so from the third copy on all are caught.
func TestReplayWave(t *testing.T) {
	mail := waveAmong(20)
	mail[0], mail[39] = mail[39], mail[0] // any order will do
	r, err := Run(t.Context(), slice(mail...), Options{Share: 1, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	if r.Messages != 40 || r.Spam != 20 || r.Ham != 20 || !r.First.Equal(replayStart) {
		t.Errorf("%d messages, %d spam, %d ham, first %v; want 40, 20, 20, %v", r.Messages, r.Spam, r.Ham, r.First,
			replayStart)
	}
	for name, run := range map[string]*Counts{"filters": &r.Filters, "exact": &r.Exact} {
		if run.Caught < 18 || run.Caught > 19 || run.Reports != 20-run.Caught {
			t.Errorf("%s: %d caught, %d reports; want 18 or 19 caught and the rest reported", name, run.Caught, run.Reports)
		}
		if run.HamFlagged != 0 || run.HamBulk != 0 || run.Revokes != 0 || run.Flagged != nil {
			t.Errorf("%s: %d ham flagged (%v), %d bulk, %d revokes; want none", name, run.HamFlagged, run.Flagged, run.HamBulk,
				run.Revokes)
		}
		if run.StateBytes == 0 || run.PerSecond == 0 {
			t.Errorf("%s: %d bytes of state, %v messages/s", name, run.StateBytes, run.PerSecond)
		}
		if len(run.Schemes) == 0 || run.Schemes[0].Scheme != "bulkhead/near" || run.Schemes[0].Caught != run.Caught {
			t.Errorf("%s: schemes %+v, want bulkhead/near first with all of the caught", name, run.Schemes)
		}
	}
	if d := r.Differences; d.Verdicts != 40 || d.Spam+d.Bulk != 0 || d.Findings == 0 {
		t.Errorf("differences %+v, want none in 40 verdicts", d)
	}
	spam, caught := 0, 0
	for _, p := range r.Series {
		spam, caught = spam+p.Spam, caught+p.Caught
	}
	if spam != 20 || caught != r.Filters.Caught {
		t.Errorf("the series has %d spam and %d caught, want 20 and %d", spam, caught, r.Filters.Caught)
	}
}

// TestReplayBulk has no reports, so spam can only be called bulk.
func TestReplayBulk(t *testing.T) {
	r, err := Run(t.Context(), slice(waveAmong(20)...), Options{Share: 1e-12, Threshold: 5})
	if err != nil {
		t.Fatal(err)
	}
	if r.Filters.Caught != 0 || r.Filters.SpamBulk != 15 || r.Filters.HamBulk != 0 {
		t.Errorf("%d caught, %d spam bulk, %d ham bulk; want 0, 15 (all after the first five), 0", r.Filters.Caught,
			r.Filters.SpamBulk, r.Filters.HamBulk)
	}
}

// TestReplayMistakes lets everybody report the first newsletter by mistake, and everybody
// revoke what is caught wrongly.
func TestReplayMistakes(t *testing.T) {
	var mail []Mail
	for i := range 10 {
		mail = append(mail, Mail{Name: fmt.Sprint(i), Time: replayStart.Add(time.Duration(i) * 4 * time.Hour), Raw: wave(i)})
	}
	r, err := Run(t.Context(), slice(mail...), Options{Share: 1, Mistakes: 0.999999, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if r.Filters.HamFlagged == 0 || r.Filters.HamFlagged > 9 || r.Filters.Revokes != r.Filters.HamFlagged ||
		len(r.Filters.Flagged) != r.Filters.HamFlagged {
		t.Errorf("%d ham flagged %v, %d withdrawn; want 1 to 9, each withdrawn", r.Filters.HamFlagged, r.Filters.Flagged,
			r.Filters.Revokes)
	}
	// Reporters of small weight list nothing between them in this time.
	r, err = Run(t.Context(), slice(mail...), Options{Share: 1, Mistakes: 0.999999, Weight: 0.05, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if r.Filters.HamFlagged != 0 {
		t.Errorf("%d ham flagged by reporters of weight 0.05, want none", r.Filters.HamFlagged)
	}
}

// TestReplayRepeats checks that a seed fixes everything except times.
func TestReplayRepeats(t *testing.T) {
	run := func(seed uint64) string {
		r, err := Run(t.Context(), slice(waveAmong(30)...), Options{Copies: 3, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		r.ReadSeconds, r.Filters.PerSecond, r.Exact.PerSecond = 0, 0, 0
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	first := run(1)
	if again := run(1); again != first {
		t.Errorf("equal seeds, other results:\n%s\n%s", first, again)
	}
	if !strings.Contains(first, `"spam":90,`) {
		t.Errorf("three copies of 30 spams are not 90 deliveries: %s", first)
	}
	if run(2) == first {
		t.Error("another seed gives the same result in every detail")
	}
}

func TestReplayRefuses(t *testing.T) {
	good := waveAmong(1)
	broken := errors.New("disk gone")
	for _, tt := range []struct {
		name string
		mail iter.Seq2[Mail, error]
		opts Options
		want string
	}{
		{"no mail", slice(), Options{}, "no messages"},
		{"empty message", slice(Mail{Name: "x"}), Options{}, "x: mail: malformed request: empty message"},
		{"read error", func(yield func(Mail, error) bool) { yield(Mail{}, broken) }, Options{}, "disk gone"},
		{"sites", slice(good...), Options{Sites: -1}, "-1 sites, want 1 to 10000"},
		{"copies", slice(good...), Options{Sites: 2, Copies: 3}, "3 copies for 2 sites"},
		{"share", slice(good...), Options{Share: 1.5}, "share 1.5"},
		{"mistakes", slice(good...), Options{Mistakes: -1}, "mistakes -1"},
		{"weight", slice(good...), Options{Weight: 2}, "weight 2"},
		{"delay", slice(good...), Options{Delay: -1}, "no negative time"},
		{"bands", slice(good...), Options{NearMatch: 99}, "near match of 99 bands"},
		{"floor", slice(good...), Options{ShareFrom: 16}, "shared from 16 on"},
		{"floor of votes", slice(good...), Options{ShareVotesFrom: 16}, "votes shared from 16 on"},
	} {
		if r, err := Run(t.Context(), tt.mail, tt.opts); err == nil || r != nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: result %v, error %v; want %q", tt.name, r != nil, err, tt.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	opts := Options{Progress: func(stage string, done, _ int) {
		if stage == "delivering" && done == 3 {
			cancel()
		}
	}}
	if _, err := Run(ctx, slice(waveAmong(20)...), opts); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled replay: %v", err)
	}
}

func TestReplayPlots(t *testing.T) {
	r, err := Run(t.Context(), slice(waveAmong(20)...), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var svg, png bytes.Buffer
	if err := errors.Join(r.PlotSVG(&svg), r.PlotPNG(&png)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", "spam caught", "missed", "Spam caught: "} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("the SVG has no %q", want)
		}
	}
	if !bytes.HasPrefix(png.Bytes(), []byte("\x89PNG")) {
		t.Errorf("the PNG begins with %q", png.Bytes()[:min(8, png.Len())])
	}
	if err := (&Result{}).PlotSVG(&svg); err != nil {
		t.Errorf("picture of nothing: %v", err)
	}
}

// collection reads an unpacked set of the corpus.
func collection(t *testing.T, name string) []Mail {
	t.Helper()
	var mail []Mail
	for m, err := range mailbox.Read(t.Context(), sharedtest.Unpack(t, name), mailbox.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		mail = append(mail, Mail{Name: strings.TrimPrefix(m.Name(), "/"), Time: m.Time, Spam: m.Label == mailbox.Spam,
			Raw: m.Raw})
	}
	return mail
}

// checkCorpus logs a result and checks what holds for every collection: hardly any ham is
// flagged, none by bulkhead's own signatures, and the filters err no more than stated.
func checkCorpus(t *testing.T, name string, r *Result) {
	t.Helper()
	d := &r.Differences
	t.Logf("%s: %d of %d spam caught (%.1f %%), %d suspected, %d of %d ham called spam, %d suspected, %d ham bulk; "+
		"filters %d bytes, maps %d; %.0f messages/s; %d of %d verdicts differ, counts %.1e, judgements %.1e",
		name, r.Filters.Caught, r.Spam, 100*r.CatchRate(), r.Filters.SpamSuspected, r.Filters.HamFlagged, r.Ham,
		r.Filters.HamSuspected, r.Filters.HamBulk, r.Filters.StateBytes, r.Exact.StateBytes,
		r.Filters.PerSecond, d.Spam+d.Bulk, d.Verdicts, d.CountRate, d.JudgeRate)
	for _, s := range r.Filters.Schemes {
		t.Logf("    %-16s %5d caught, %4d by no other, %3d ham", s.Scheme, s.Caught, s.Only, s.HamFlagged)
		if (s.Scheme == "bulkhead/near" || s.Scheme == "bulkhead/exact") && s.HamFlagged > 0 {
			t.Errorf("%s: %d ham has listed signatures of %s", name, s.HamFlagged, s.Scheme)
		}
	}
	if r.FalseRate() > 1e-3 {
		t.Errorf("%s: %d of %d ham called spam: %v", name, r.Filters.HamFlagged, r.Ham, r.Filters.Flagged)
	}
	if rate := float64(r.Filters.HamSuspected) / float64(r.Ham); rate > 5e-3 {
		t.Errorf("%s: %d of %d ham suspected", name, r.Filters.HamSuspected, r.Ham)
	}
	// The stated rate is for one generation; a count adds up the live ones. The kinds of a
	// signature share a line, which is fuller than others for spam that was voted on and then
	// caught.
	if d.CountRate > 3*d.Stated || float64(d.Spam) > 1+d.StatedJ*float64(d.Findings) {
		t.Errorf("%s: filters differ more than stated: %+v", name, *d)
	}
}

// TestReplayCorpus replays real mail. The catch rate is limited by how often the collections
// repeat themselves. The test checks that near-duplicates among spam are caught, or suspected
// where one voice reported them, and that those among ham (newsletters, revisions of patches)
// are left alone.
func TestReplayCorpus(t *testing.T) {
	if testing.Short() {
		t.Skip("replays thousands of messages")
	}
	spamassassin, csdmc := collection(t, "spamassassin-2002"), collection(t, "csdmc-2009-2010")
	full := os.Getenv("BULKHEAD_FULL") == "1"
	for _, set := range []struct {
		name  string
		mail  []Mail
		least float64
	}{{"csdmc-2009-2010", csdmc, 0.2}, {"spamassassin-2002", spamassassin, 0.15}} {
		if !full && set.name == "spamassassin-2002" {
			continue // its spam is replayed below
		}
		r, err := Run(t.Context(), slice(set.mail...), Options{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		checkCorpus(t, set.name, r)
		if rate := float64(r.Filters.Caught+r.Filters.SpamSuspected) / float64(r.Spam); rate < set.least {
			t.Errorf("%s: %.3f of the spam caught or suspected, want at least %.2f", set.name, rate, set.least)
		}
	}
	// The lists have ham only. All spam of the other sets arrives among it, and everybody
	// reports at once.
	lists := collection(t, "lists-2019-2020")
	first, span := lists[0].Time, lists[len(lists)-1].Time.Sub(lists[0].Time)
	mixed := lists
	spam := append(spamassassin, csdmc...)
	for i, m := range spam {
		if m.Spam {
			m.Time = first.Add(time.Duration(float64(span) * float64(i) / float64(len(spam))))
			mixed = append(mixed, m)
		}
	}
	r, err := Run(t.Context(), slice(mixed...), Options{Share: 1, Delay: time.Second, Seed: 1,
		Skip: []bulkhead.Scheme{bulkhead.RazorE8}})
	if err != nil {
		t.Fatal(err)
	}
	checkCorpus(t, "lists-2019-2020 among spam", r)
	if r.Ham != 4000 || r.Filters.HamFlagged > 0 {
		t.Errorf("%d of %d list messages called spam: %v", r.Filters.HamFlagged, r.Ham, r.Filters.Flagged)
	}
}

// recognised returns how much spam was caught or suspected.
func recognised(r *ServersRun) int { return r.Caught + r.Suspected }

// TestReplayServers checks that servers that share recognise what one server for all does,
// while alone each has to learn of a mailing by itself.
func TestReplayServers(t *testing.T) {
	opts := Options{Sites: 8, Share: 1, Delay: 10 * time.Minute}
	r, err := RunServers(context.Background(), slice(waveAmong(60)...), opts, []int{1, 2, 8})
	if err != nil {
		t.Fatal(err)
	}
	one := r.Rows[0]
	if one.Alone.Caught != one.Shared.Caught || one.Alone.Reports != one.Shared.Reports {
		t.Errorf("one server: %+v alone, %+v sharing with nobody", one.Alone, one.Shared)
	}
	for _, row := range r.Rows[1:] {
		if recognised(&row.Shared) != recognised(&one.Alone) || row.Shared.HamFlagged != one.Alone.HamFlagged {
			t.Errorf("%d servers that share: %+v, one server for all: %+v", row.Servers, row.Shared, one.Alone)
		}
		if lost := recognised(&one.Alone) - recognised(&row.Alone); lost < 1 || lost > row.Servers-1 {
			t.Errorf("%d servers alone recognise %d, one %d: want one less for each further server, as far as the mailing "+
				"came to it", row.Servers, recognised(&row.Alone), recognised(&one.Alone))
		}
		if row.Alone.Caught > one.Alone.Caught || row.Shared.Caught > one.Alone.Caught ||
			row.Servers == 8 && row.Alone.Caught > 0 {
			t.Errorf("%d servers catch %d alone and %d sharing, one catches %d; a voice alone only suspects", row.Servers,
				row.Alone.Caught, row.Shared.Caught, one.Alone.Caught)
		}
		if row.Alone.SentBytes != 0 || row.Shared.SentBytes == 0 {
			t.Errorf("%d servers send %d bytes alone, %d sharing", row.Servers, row.Alone.SentBytes, row.Shared.SentBytes)
		}
	}
	for _, servers := range []int{0, 9} {
		if _, err := RunServers(context.Background(), slice(waveAmong(1)...), opts, []int{servers}); err == nil {
			t.Errorf("%d servers for 8 sites are accepted", servers)
		}
	}
}

// TestConfidence checks that among messages with many recipients, of whom some complain about
// ham by mistake, no fewer are spam than the node's confidence says. The least confidence of
// spam is left out: those are texts of which one vote stands against many deliveries.
func TestConfidence(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 6))
	words := strings.Fields("apple bridge candle desert engine forest garden hammer island jacket kettle ladder mirror " +
		"needle orange pepper quarry ribbon saddle temple")
	var mail []Mail
	for i := range 1800 {
		var b strings.Builder
		fmt.Fprintf(&b, "From: a%d@example.com\nTo: bob@example.com\nSubject: %d\n\n", i, i)
		for range 30 {
			fmt.Fprintf(&b, "%s%d ", words[rng.IntN(len(words))], rng.IntN(1000))
		}
		mail = append(mail, Mail{Name: fmt.Sprint(i), Time: replayStart.Add(time.Duration(i) * 10 * time.Minute),
			Spam: i%3 == 0, Raw: []byte(b.String())})
	}
	skip := []bulkhead.Scheme{bulkhead.RazorE4, bulkhead.RazorE8, bulkhead.RspamdShingle, bulkhead.DCCFuz1,
		bulkhead.DCCFuz2}
	r, err := Run(t.Context(), slice(mail...), Options{Sites: 100, HeavyTail: true, Mistakes: 0.008, Seed: 1, Skip: skip})
	if err != nil {
		t.Fatal(err)
	}
	// Two groups: copies of one message are answered alike, so that single bands say little.
	for _, group := range []struct{ from, to, least int }{{60, 84, 300}, {85, 100, 300}} {
		answers, spam, promised := 0, 0, 0.0
		for _, b := range r.Filters.Reliability.Bands() {
			if b.From >= group.from && b.To <= group.to {
				answers, spam, promised = answers+b.Answers, spam+b.Spam, promised+b.Sum
			}
		}
		if answers < group.least {
			t.Errorf("%d messages were answered %d to %d: too few to tell anything", answers, group.from, group.to)
		}
		if float64(spam) < promised {
			t.Errorf("%d of %d messages answered %d to %d were spam, want %.1f at least", spam, answers, group.from, group.to,
				promised)
		}
	}
	if r.Filters.HamFlagged < 50 {
		t.Errorf("%d ham called spam: too few to tell anything", r.Filters.HamFlagged)
	}
}

// TestInterleave: ham of other years is spread over the time of the spam, in its order; the
// spam stays where it was, so it is caught as before.
func TestInterleave(t *testing.T) {
	var spam, all []Mail
	for i := range 20 {
		spam = append(spam, Mail{Name: fmt.Sprintf("spam-%d", i), Time: replayStart.Add(time.Duration(i) * time.Hour),
			Spam: true, Raw: wave(i)})
	}
	for i := range 30 {
		at := replayStart.AddDate(-20, 0, i*i) // further and further apart
		all = append(all, Mail{Name: fmt.Sprintf("ham-%d", i), Time: at, Raw: note(i)})
	}
	all = append(all, spam...)
	opts := Options{Share: 1, Seed: 3, Interleave: true}
	if err := opts.Complete(); err != nil {
		t.Fatal(err)
	}
	letters, err := readReplay(t.Context(), slice(all...), &opts)
	if err != nil {
		t.Fatal(err)
	}
	ham, last := 0, replayStart
	for i, l := range letters {
		switch {
		case l.time.Before(last) || l.time.After(replayStart.Add(19*time.Hour)):
			t.Errorf("letter %d of %d at %v after %v", i, len(letters), l.time, last)
		case l.spam:
			if want := replayStart.Add(time.Duration(i-ham) * time.Hour); !l.time.Equal(want) {
				t.Errorf("%s at %v, want %v", l.name, l.time, want)
			}
			// Evenly: as much of the ham as of the time is over.
			if want := float64(30*(i-ham)) / 19; float64(ham) < want-1 || float64(ham) > want+1 {
				t.Errorf("%d ham before %s, want about %.1f", ham, l.name, want)
			}
		default:
			if want := fmt.Sprintf("ham-%d", ham); l.name != want {
				t.Errorf("%s, want %s", l.name, want)
			}
			ham++
		}
		last = l.time
	}
	r, err := Run(t.Context(), slice(all...), Options{Share: 1, Seed: 3, Interleave: true})
	if err != nil {
		t.Fatal(err)
	}
	if r.Ham != 30 || r.Spam != 20 || r.Filters.Caught < 18 || r.Filters.HamFlagged != 0 ||
		r.Last.Sub(r.First) != 19*time.Hour {
		t.Errorf("%d ham, %d spam from %v to %v, %d caught, %d ham flagged", r.Ham, r.Spam, r.First, r.Last, r.Filters.Caught,
			r.Filters.HamFlagged)
	}
	if _, err := Run(t.Context(), slice(spam...), Options{Interleave: true}); err == nil || !strings.Contains(err.Error(),
		"0 ham and 20 spam") {
		t.Errorf("spam alone: %v", err)
	}
}

// TestHeavyTail: most messages go to one site and few to many, the same for one seed, and
// results count deliveries.
func TestHeavyTail(t *testing.T) {
	letters := make([]*letter, 40_000)
	for i := range letters {
		letters[i] = new(letter)
	}
	opts := Options{Sites: 50, HeavyTail: true, Seed: 7}
	address(letters, &opts)
	counts := make([]int, 51)
	for _, l := range letters {
		counts[l.copies]++
	}
	sum := 0.0
	for k := 1; k <= 50; k++ {
		sum += 1 / float64(k*k)
	}
	for _, k := range []int{1, 2, 3, 5, 10} {
		want := float64(len(letters)) / sum / float64(k*k)
		if got := float64(counts[k]); math.Abs(got-want) > 5*math.Sqrt(want) {
			t.Errorf("%v letters go to %d sites, want %.0f", got, k, want)
		}
	}
	if counts[0] != 0 || counts[50] == 0 && counts[49] == 0 && counts[48] == 0 && counts[47] == 0 {
		t.Errorf("letters by number of sites: %v", counts)
	}
	run := func() *Result {
		r, err := Run(t.Context(), slice(waveAmong(30)...), Options{Share: 1, HeavyTail: true, Seed: 5})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, b := run(), run()
	if a.Messages != 60 || a.Spam+a.Ham <= 60 || a.Spam != b.Spam || a.Ham != b.Ham ||
		a.Filters.Caught != b.Filters.Caught {
		t.Errorf("%d messages, %d and %d spam, %d and %d ham, %d and %d caught", a.Messages, a.Spam, b.Spam, a.Ham, b.Ham,
			a.Filters.Caught, b.Filters.Caught)
	}
	servers, err := RunServers(t.Context(), slice(waveAmong(30)...), Options{Share: 1, HeavyTail: true, Seed: 5}, []int{1})
	if err != nil || servers.Spam != a.Spam || servers.Ham != a.Ham {
		t.Errorf("by servers %d spam, %d ham, %v; want %d, %d", servers.Spam, servers.Ham, err, a.Spam, a.Ham)
	}
	if _, err := Run(t.Context(), slice(waveAmong(3)...), Options{Copies: 2, HeavyTail: true}); err == nil {
		t.Error("two copies of each and heavy-tailed numbers of them")
	}
}
