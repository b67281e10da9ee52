package replay

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/digest/rspamd"
)

// longWave is a copy of a mailing that differs from the others in its header only, and has
// enough words for every scheme.
func longWave(n int) []byte {
	r := rand.New(rand.NewPCG(1, 5))
	var b strings.Builder
	fmt.Fprintf(&b, "From: a%d@example.net\nTo: b@example.com\nSubject: offer\nMessage-ID: <%d@example.net>\n\n", n, n)
	for i := range 300 {
		fmt.Fprintf(&b, "%c%c%crid%c ", 'a'+r.IntN(26), 'a'+r.IntN(26), 'a'+r.IntN(26), 'a'+r.IntN(26))
		if i%10 == 9 {
			b.WriteByte('\n')
		}
	}
	return []byte(b.String())
}

// judgeOf returns the figures of one judge.
func judgeOf(t *testing.T, r *Result, name string) *Judge {
	t.Helper()
	for i := range r.Judges {
		if r.Judges[i].Name == name {
			return &r.Judges[i]
		}
	}
	t.Fatalf("no judge %q in %d", name, len(r.Judges))
	return nil
}

// TestJudges has a known outcome: one spam goes to 20 sites, and everybody who misses it
// reports it before the next gets it. So a judge that asks for n reports misses n.
func TestJudges(t *testing.T) {
	mail := slice(
		Mail{Name: "spam", Time: replayStart, Spam: true, Raw: longWave(1)},
		Mail{Name: "ham", Time: replayStart, Raw: note(1)})
	r, err := Run(t.Context(), mail, Options{Sites: 20, Copies: 20, Share: 1, Delay: time.Nanosecond,
		Spread: 24 * time.Hour, Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Judges) != 5 || r.Judges[0].Name != Node || r.Judges[0].Caught != r.Filters.Caught ||
		r.Judges[0].Reports != r.Filters.Reports {
		t.Errorf("the first of %d judges: %+v, want the filters: %+v", len(r.Judges), r.Judges[0], r.Filters)
	}
	for name, missed := range map[string]int{"razor": 1, "pyzor": 5, "dcc": 1, "rspamd fuzzy": 1} {
		j := judgeOf(t, r, name)
		if j.Caught != 20-missed || j.Reports != missed || j.HamFlagged+j.Revokes != 0 {
			t.Errorf("%s: %d caught, %d reports, %d ham called spam, %d withdrawals; want %d, %d, 0, 0",
				name, j.Caught, j.Reports, j.HamFlagged, j.Revokes, 20-missed, missed)
		}
		d := &j.Detection
		if d.Messages != 1 || d.AtOnce != 0 || d.Caught != 1 || d.Missed != missed {
			t.Errorf("%s: %+v, want its only message caught after %d", name, *d, missed)
		}
		if last := d.Within[len(d.Within)-1]; d.Within[0].Messages != 0 || last.Messages != 1 {
			t.Errorf("%s: %+v, want it caught after the first minute", name, d.Within)
		}
		// A lower limit catches what came after the first, and no limit more than there is.
		end := CurvePoint{}
		for i, c := range j.Curve {
			if i > 0 && (c.Score >= end.Score || c.Spam < end.Spam || c.Ham < end.Ham) {
				t.Errorf("%s: %+v after %+v", name, c, end)
			}
			if end = c; c.Score > 0 && c.Score <= 1 && c.Spam != 19 {
				t.Errorf("%s: %+v, want 19 spam that somebody had reported", name, c)
			}
		}
		if end.Spam != 20 || end.Ham != 20 || end.Score != 0 {
			t.Errorf("%s ends with %+v, want all deliveries", name, end)
		}
	}
}

// TestJudgesMistakes has everybody complain about the first copy of a newsletter, and
// everybody who misses a later one object. DCC alone has no way to take a report back.
func TestJudgesMistakes(t *testing.T) {
	mail := slice(Mail{Name: "ham", Time: replayStart, Raw: longWave(1)})
	opts := Options{Sites: 30, Copies: 30, Share: 1, Mistakes: 0.999999, Delay: time.Nanosecond, Spread: 24 * time.Hour,
		Seed: 2}
	r, err := Run(t.Context(), mail, opts)
	if err != nil {
		t.Fatal(err)
	}
	// Reported, taken back, reported again.
	for _, name := range []string{"razor", "rspamd fuzzy"} {
		if j := judgeOf(t, r, name); j.HamFlagged != 15 || j.Reports != 15 || j.Revokes != 15 {
			t.Errorf("%s: %d called spam, %d reports, %d withdrawals; want 15 each", name, j.HamFlagged, j.Reports, j.Revokes)
		}
	}
	if j := judgeOf(t, r, "dcc"); j.HamFlagged != 29 || j.Reports != 1 || j.Revokes != 29 {
		t.Errorf("dcc: %d called spam, %d reports, %d withdrawals; want 29, 1, 29", j.HamFlagged, j.Reports, j.Revokes)
	}
	// Four reports pass, the fifth lists; one withdrawal is enough to fall below it.
	if j := judgeOf(t, r, "pyzor"); j.HamFlagged != 13 && j.HamFlagged != 12 || j.Reports != 30-j.HamFlagged ||
		j.Revokes != j.HamFlagged {
		t.Errorf("pyzor: %d called spam, %d reports, %d withdrawals", j.HamFlagged, j.Reports, j.Revokes)
	}
}

// TestTexts compares the storage of texts with all pairs of what was learnt.
func TestTexts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	text := func(from *rspamd.Hash, keep int) rspamd.Hash {
		h := rspamd.Hash{Shingles: new([rspamd.Shingles]uint64)}
		for i := range h.Digest {
			h.Digest[i] = byte(r.Uint32())
		}
		for i := range h.Shingles {
			h.Shingles[i] = r.Uint64()
		}
		if from != nil {
			for _, i := range r.Perm(rspamd.Shingles)[:keep] {
				h.Shingles[i] = from.Shingles[i]
			}
		}
		return h
	}
	for range 200 {
		book := newTexts()
		known := text(nil, 0)
		learnt := r.IntN(3)
		for range learnt {
			book.reported(&letter{texts: []rspamd.Hash{text(nil, 0), known}})
		}
		keep := r.IntN(rspamd.Shingles + 1)
		like := &letter{texts: []rspamd.Hash{text(&known, keep)}}
		want := 0.0
		if 2*keep > rspamd.Shingles {
			want = float64(learnt) * float64(keep) / rspamd.Shingles
		}
		if got := book.score(like); got != want {
			t.Fatalf("a text that shares %d shingles with one learnt %d times scores %v, want %v", keep, learnt, got, want)
		}
		// Unlearning the likeness leaves the text alone; its own removes it.
		book.revoked(like)
		same := &letter{texts: []rspamd.Hash{known}}
		if got := book.score(same); got != float64(learnt) {
			t.Fatalf("learnt %d times, scores %v", learnt, got)
		}
		book.revoked(same)
		if got := book.score(same); got != 0 {
			t.Fatalf("unlearnt, scores %v", got)
		}
	}
	short := &letter{texts: []rspamd.Hash{{Digest: [64]byte{1}}}}
	book := newTexts()
	if book.score(short) != 0 {
		t.Error("a short text is known before it was learnt")
	}
	if book.reported(short); book.score(short) != 1 {
		t.Error("a short text that was learnt is not known")
	}
}

// TestGroups: the mail of a group is spread over the time of the rest, and counted apart.
func TestGroups(t *testing.T) {
	mail := waveAmong(20)
	for i := range 10 {
		at := replayStart.AddDate(5, 0, i*i)
		mail = append(mail,
			Mail{Name: fmt.Sprintf("clone-%d", i), Time: at, Spam: true, Group: "clones", Raw: longWave(i)},
			Mail{Name: fmt.Sprintf("template-%d", i), Time: at, Group: "templates", Raw: note(100 + i)})
	}
	opts := Options{Share: 1, Seed: 3}
	if err := opts.Complete(); err != nil {
		t.Fatal(err)
	}
	letters, err := readReplay(t.Context(), slice(mail...), &opts)
	if err != nil {
		t.Fatal(err)
	}
	next := map[string]int{}
	span := 19*time.Hour + time.Minute
	for _, l := range letters {
		i := next[l.group]
		next[l.group]++
		if l.group == "" {
			continue
		}
		want := replayStart.Add(time.Duration(float64(span) * (float64(i) + 0.5) / 10))
		if !l.time.Equal(want) || l.name != fmt.Sprintf("%s-%d", strings.TrimSuffix(l.group, "s"), i) {
			t.Errorf("%s at %v, want letter %d of its group at %v", l.name, l.time, i, want)
		}
	}
	r, err := Run(t.Context(), slice(mail...), opts)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Groups) != 2 || r.Groups[0].Name != "clones" || r.Groups[1].Name != "templates" {
		t.Fatalf("groups %+v", r.Groups)
	}
	c, tm := r.Groups[0], r.Groups[1]
	if c.Spam != 10 || c.Ham != 0 || c.Caught != 9 || c.SpamSuspected != 0 || tm.Ham != 10 || tm.Spam != 0 ||
		tm.HamFlagged+tm.HamSuspected != 0 {
		t.Errorf("%+v %+v, want 9 of 10 equal copies caught, an hour and more after the first, and no ham", c, tm)
	}
	if r.Spam != 30 || r.Ham != 30 {
		t.Errorf("%d spam, %d ham, want 30 of each with the groups", r.Spam, r.Ham)
	}
	if _, err := Run(t.Context(), slice(Mail{Name: "x", Group: "clones", Time: replayStart, Raw: note(1)}),
		Options{}); err == nil || !strings.Contains(err.Error(), "no mail but that of groups") {
		t.Errorf("a group alone: %v", err)
	}
}

// TestVerified: what is known of senders is part of what a delivery is judged by.
func TestVerified(t *testing.T) {
	opts := Options{Verified: true}
	if err := opts.Complete(); err != nil {
		t.Fatal(err)
	}
	letters, err := readReplay(t.Context(), slice(waveAmong(1)...), &opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range letters {
		if verified := len(l.source.DKIM) > 0; verified == l.spam {
			t.Errorf("%s: verified as of %q", l.name, l.source.DKIM)
		}
	}
	opts.Verified = false
	if letters, err = readReplay(t.Context(), slice(waveAmong(1)...), &opts); err != nil {
		t.Fatal(err)
	}
	for _, l := range letters {
		if len(l.source.DKIM) > 0 {
			t.Errorf("%s: verified as of %q, though nobody did", l.name, l.source.DKIM)
		}
	}
}

func TestJudgePictures(t *testing.T) {
	r, err := Run(t.Context(), slice(waveAmong(20)...), Options{Copies: 2})
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]Picture{"curves": r.Curves(), "delays": r.Delays(), "of nothing": (&Result{}).Curves(),
		"also": (&Result{}).Delays()} {
		var svg bytes.Buffer
		if err := p.PlotSVG(&svg); err != nil || !strings.Contains(svg.String(), "<svg") {
			t.Errorf("%s: no SVG: %v", name, err)
		}
		if name == "curves" || name == "delays" {
			for i := range r.Judges {
				if !strings.Contains(svg.String(), ">"+r.Judges[i].Name) {
					t.Errorf("%s does not name %s", name, r.Judges[i].Name)
				}
			}
		}
	}
	var png bytes.Buffer
	if err := r.Curves().PlotPNG(&png); err != nil || !bytes.HasPrefix(png.Bytes(), []byte("\x89PNG")) {
		t.Errorf("no PNG: %v", err)
	}
}
