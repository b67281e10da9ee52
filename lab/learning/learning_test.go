package learning

import (
	"fmt"
	"os"
	"path/filepath"
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
		t.Logf("%s: spam %d of %d, made %v of %d", c.Name, r.LaterCaught[2], r.LaterSpam, r.MadeHit, r.Made)
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
