package learning

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/sharedtest"
)

// made returns n messages of which a third is spam, with words of their kind and words that all have.
func made(n int) []Letter {
	var all []Letter
	for i := range n {
		l := Letter{Name: fmt.Sprint(i), Spam: i%3 == 0}
		kind := "minutes"
		if l.Spam {
			kind = "prize"
		}
		for k := range 12 {
			l.Features = append(l.Features, fmt.Sprintf("w:%s%d", kind, (i*7+k*k)%40),
				fmt.Sprintf("w:common%d", (i+k)%60))
		}
		all = append(all, l)
	}
	return all
}

func run(t *testing.T, letters []Letter, o Options) *Result {
	t.Helper()
	o.Seed, o.Reported = 1, 0.1
	r, err := Run(t.Context(), letters, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestMadeMail checks the outcome of every case on made mail: fresh spam is found, and wanted mail is not
// taken for it.
func TestMadeMail(t *testing.T) {
	letters := made(3000)
	for _, c := range Cases(Options{Sites: 20}) {
		r := run(t, letters, c.Options)
		if r.Hit[2] > 3 {
			t.Errorf("%s: %d of %d wanted messages have 0.99 or more", c.Name, r.Hit[2], r.Ham)
		}
		if c.Lie == Honest && c.Chaff == 0 && 2*r.LaterCaught[0] < r.LaterSpam {
			t.Errorf("%s: %d of %d spam messages have 0.5 or more", c.Name, r.LaterCaught[0], r.LaterSpam)
		}
	}
	reporting := run(t, letters, Options{Sites: 20})
	none, err := Run(t.Context(), letters, Options{Seed: 1, Sites: 20})
	if err != nil || none.Caught != [len(Levels)]int{} || reporting.Caught[0] == 0 {
		t.Errorf("%+v without reports, %v", none, err)
	}
	passed := run(t, letters, Options{Sites: 20, Passed: true})
	if passed.Caught[0] == 0 || passed.Caught[0] >= reporting.Caught[0] {
		t.Errorf("%+v without the reports of marked mail, %+v with them", passed, reporting)
	}
	known := run(t, letters, Options{Sites: 20, Known: true})
	if known.Caught[2] <= reporting.Caught[2] || known.Hit[0] > 0 {
		t.Errorf("%+v with the deliveries of spam known, %+v without", known, reporting)
	}
	for _, o := range []Options{{}, {Sites: 3, Liars: 3}, {Sites: 1, Reported: 2}} {
		if _, err := Run(t.Context(), letters, o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// TestCommercial checks that no mail of made shops, banks, newsletters and notices is taken for the spam that
// imitates it, with liars and mistakes too, and that a tenth of this spam is found by words alone. Spam that carries
// words of this mail may cost one message in 300.
func TestCommercial(t *testing.T) {
	if len(commercial) != 30 {
		t.Fatalf("%d senders", len(commercial))
	}
	genuine, err := Commercial(t.Context(), 30, 1)
	if err != nil {
		t.Fatal(err)
	}
	spam, err := Lures(t.Context(), 160, 1)
	if err != nil {
		t.Fatal(err)
	}
	cases := Cases(Options{Sites: 20})
	if testing.Short() {
		cases = cases[:1]
	}
	for _, c := range cases {
		r := run(t, Interleaved(genuine, spam), c.Options)
		most := 0
		if c.Chaff != 0 {
			most = r.Made / 300
		}
		if r.Made != len(genuine) || r.MadeHit[2] > most {
			t.Errorf("%s: %d of %d messages have 0.99 or more", c.Name, r.MadeHit[2], r.Made)
		}
		if c.Name == "honest" && 10*r.LaterCaught[2] < r.LaterSpam {
			t.Errorf("%s: %d of %d spam messages have 0.99 or more", c.Name, r.LaterCaught[2], r.LaterSpam)
		}
		if c.Lie == Single && r.Aimed != 30 {
			t.Errorf("%s: aims at %d messages", c.Name, r.Aimed)
		}
		t.Logf("%s: spam %d of %d, made %v of %d, aimed at %v of %d", c.Name, r.LaterCaught[2], r.LaterSpam, r.MadeHit,
			r.Made, r.AimedHit, r.Aimed)
	}
}

// TestTwoSites checks that one of two sites, whatever it claims, makes no mail of shops and banks reach 0.99 at the
// other one.
func TestTwoSites(t *testing.T) {
	genuine, err := Commercial(t.Context(), 15, 7)
	if err != nil {
		t.Fatal(err)
	}
	spam, err := Lures(t.Context(), 80, 7)
	if err != nil {
		t.Fatal(err)
	}
	letters := Interleaved(genuine, spam)
	lies := 0
	for _, c := range Cases(Options{Sites: 2}) {
		if c.Lie == Honest {
			continue
		}
		lies++
		r := run(t, letters, c.Options)
		if r.MadeHit[2] > 0 || r.Made != len(genuine) || c.Lie == Single && r.Aimed == 0 {
			t.Errorf("%s: %d of %d messages have 0.99 or more, and %d of %d that it aims at", c.Name, r.MadeHit[2], r.Made,
				r.AimedHit[2], r.Aimed)
		}
	}
	if lies != 6 {
		t.Errorf("%d lies of one site", lies)
	}
}

// TestExposure checks that a site shares no word of one message or one person, and the words that it may.
func TestExposure(t *testing.T) {
	letters := made(600)
	for i := range letters {
		letters[i].Features = append(letters[i].Features, fmt.Sprint("w:own", i), fmt.Sprint("w:pair", i/2))
	}
	x, err := Expose(t.Context(), letters, 5, 1)
	if err != nil || x.Leaked != 0 || x.Single != 600 || x.Alone == 0 || x.Whole != 0 ||
		x.Shared > x.All-x.Single-x.Alone || x.Shared < (x.All-x.Single-x.Alone)*9/10 {
		t.Errorf("%+v, %v", x, err)
	}
}

// TestRead checks that collections are read and interleaved, and that a wrong index is refused.
func TestRead(t *testing.T) {
	collection := func(index string, files ...string) string {
		dir := t.TempDir()
		for i, text := range append(files, index) {
			name := fmt.Sprintf("%d.eml", i)
			if i == len(files) {
				name = "index.tsv"
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	mail := "From: a@b.example\n\nsome words\n"
	spam := collection("file\tlabel\n0.eml\tspam\n1.eml\tspam\n", mail, mail)
	ham := collection("file\tlabel\n0.eml\tham\n", mail)
	got, err := Read(t.Context(), spam, ham)
	if err != nil || len(got) != 3 || !got[0].Spam || got[1].Spam || !got[2].Spam || len(got[0].Features) == 0 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, dir := range []string{collection("file\tlabel\n0.eml\tneither\n", mail),
		collection("file\tlabel\n0.eml\tham\n"), t.TempDir()} {
		if _, err := Read(t.Context(), dir); err == nil {
			t.Errorf("%s is read", dir)
		}
	}
}

// TestBounds holds the bounds of docs/learning.md on the mail corpus.
func TestBounds(t *testing.T) {
	if testing.Short() {
		t.Skip("scores 20,000 messages many times")
	}
	for _, set := range []struct {
		dirs   []string
		caught float64 // share of spam with 0.99 or more after 50 reports, of an honest network
		hit    int     // wanted messages with 0.99 or more
	}{
		{[]string{"spamassassin-2002"}, 0, 1},
		{[]string{"phishing-pot-2023-2024", "lists-2019-2020"}, 0.45, 0},
	} {
		for i := range set.dirs {
			set.dirs[i] = sharedtest.Unpack(t, set.dirs[i])
		}
		letters, err := Read(t.Context(), set.dirs...)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range Cases(Options{Sites: 20}) {
			r := run(t, letters, c.Options)
			most := set.hit
			if c.Lie != Honest {
				most = max(most, r.Ham/1000)
			}
			if c.Chaff == 0 && r.Hit[2] > most {
				t.Errorf("%v, %s: %d of %d wanted messages have 0.99 or more", set.dirs, c.Name, r.Hit[2], r.Ham)
			}
			t.Logf("%v, %s: spam %v of %d, wanted %v of %d", set.dirs, c.Name, r.Caught, r.Spam, r.Hit, r.Ham)
			if c.Name == "honest" && float64(r.LaterCaught[2]) < set.caught*float64(r.LaterSpam) {
				t.Errorf("%v: %d of %d spam messages have 0.99 or more", set.dirs, r.LaterCaught[2], r.LaterSpam)
			}
		}
	}
}

// A scripted learner gives each message the score of its text, and notes what it learns.
type scripted struct{ spam, ham []string }

func (s *scripted) Score(_ context.Context, raw []byte) (float64, error) {
	if strings.Contains(string(raw), "sure") {
		return 1, nil
	}
	return 0, nil
}

func (s *scripted) Learn(_ context.Context, raw []byte, spam bool) error {
	if spam {
		s.spam = append(s.spam, string(raw))
	} else {
		s.ham = append(s.ham, string(raw))
	}
	return nil
}

func (s *scripted) Close() error { return nil }

// TestBeside checks what another program learns by each teaching: the reports of the same run, and as wanted mail
// either what it let pass, or the same share of labels.
func TestBeside(t *testing.T) {
	letters := made(1000)
	for i := range letters {
		letters[i].raw = fmt.Appendf(nil, "%d sure", i)
		if i%2 == 0 {
			letters[i].raw = fmt.Appendf(nil, "%d", i)
		}
	}
	for _, teaching := range []Teaching{ByDeliveries, ByLabels} {
		s := &scripted{}
		r, err := Beside(t.Context(), letters, s, teaching, Options{Seed: 1, Sites: 20, Reported: 0.1})
		if err != nil {
			t.Fatal(err)
		}
		if r.Spam != 334 || r.Ham != 666 || r.Caught[2] != 167 || r.Hit[2] != 333 || len(s.spam) < 15 || len(s.spam) > 60 {
			t.Errorf("%s: %+v, %d reports", teaching, r, len(s.spam))
		}
		reports := 0
		for i, l := range letters {
			raw := string(l.raw)
			learnt := slices.Contains(s.ham, raw)
			if slices.Contains(s.spam, raw) {
				reports++
			} else if teaching == ByDeliveries && learnt != (i%2 == 0) || learnt && teaching == ByLabels && l.Spam {
				t.Errorf("%s: message %q: learnt as wanted: %v", teaching, raw, learnt)
			}
		}
		if reports != len(s.spam) || teaching == ByLabels && (len(s.ham) < 30 || len(s.ham) > 110) {
			t.Errorf("%s: %d reports, %d labels", teaching, reports, len(s.ham))
		}
	}
}

// TestLate checks that a stream that begins late keeps its order and comes in the second half.
func TestLate(t *testing.T) {
	var early, late []Letter
	for i := range 100 {
		early, late = append(early, Letter{Name: fmt.Sprint(i)}), append(late, Letter{Name: fmt.Sprint(i), Made: true})
	}
	n := 0
	for i, l := range Late(early, late, 0.5) {
		if l.Made {
			if i < 50 || l.Name != fmt.Sprint(n) {
				t.Errorf("late letter %s has place %d", l.Name, i)
			}
			n++
		}
	}
	if n != 100 {
		t.Errorf("%d letters", n)
	}
}

// TestPrograms checks that SpamAssassin and rspamd, where they are installed, learn and score.
func TestPrograms(t *testing.T) {
	for name, start := range map[string]func(context.Context, string) (Learner, error){"spamassassin": SpamAssassin,
		"rspamd": Rspamd} {
		for _, program := range []string{name, "redis-server"} {
			if _, err := exec.LookPath(program); err != nil && (program == name || name == "rspamd") {
				t.Skipf("no %s", program)
			}
		}
		l, err := start(t.Context(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		text := func(kind string, i int) []byte {
			return fmt.Appendf(nil, "From: a@b.example\nSubject: %[1]s %[2]d\nMessage-ID: <%[1]s%[2]d@b.example>\n\n"+
				"%[1]s %[1]sone %[1]stwo %[1]sthree %[1]sfour %[1]sfive %[1]ssix %[1]sseven %[1]seight %[1]snine %[1]sten %[2]d\n",
				kind, i)
		}
		for i := range 205 {
			if err := errors.Join(l.Learn(t.Context(), text("prize", i), true),
				l.Learn(t.Context(), text("minutes", i), false)); err != nil {
				t.Fatal(err)
			}
		}
		spam, err1 := l.Score(t.Context(), text("prize", 300))
		ham, err2 := l.Score(t.Context(), text("minutes", 300))
		if err := errors.Join(err1, err2, l.Close()); err != nil || spam < 0.9 || ham > 0.1 {
			t.Errorf("%s: spam %v, ham %v, %v", name, spam, ham, err)
		}
	}
}
