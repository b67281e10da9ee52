package engine

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine/learned"
	"github.com/bulkhead-mail/bulkhead/internal/learn"
	"github.com/bulkhead-mail/bulkhead/internal/lesson"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// A school is a node that learns, with a trusted site of many users.
type school struct {
	*testing.T
	*Engine
}

func newSchool(t *testing.T, o Options) *school {
	o.LearnBytes = 4 << 20
	w := &school{t, open(t, o)}
	if err := w.PutAccount(t.Context(), trust.Account{Name: "site", Role: trust.Trusted, Weight: 1}); err != nil {
		t.Fatal(err)
	}
	return w
}

// text returns the signatures of text n.
func text(n int) []bulkhead.Signature { return []bulkhead.Signature{sig(bulkhead.Exact, n)} }

// words returns features: ten words of a subject, and one that no other message has.
func words(subject string, n int) []string {
	out := []string{fmt.Sprint("w:own", n)}
	for i := range 10 {
		out = append(out, fmt.Sprint("w:", subject, (n+i)%14))
	}
	return out
}

func (w *school) vote(vote bulkhead.Vote, user, n int, features []string) {
	w.Helper()
	report(w, w.Engine, bulkhead.Report{Signatures: text(n), Vote: vote, Source: bulkhead.Source{Features: features},
		Reporter: bulkhead.Reporter{Account: "site", User: fmt.Sprint("user", user)}})
}

func (w *school) deliver(n int, features []string) {
	w.Helper()
	report(w, w.Engine, bulkhead.Report{Signatures: text(n), Source: bulkhead.Source{Features: features},
		Reporter: bulkhead.Reporter{Account: "site"}, Recipients: []string{fmt.Sprintf("user%d@here.example", n%9)}})
}

func (w *school) check(n int, features []string) bulkhead.Verdict {
	w.Helper()
	v, err := w.Check(w.Context(), bulkhead.Query{Signatures: text(n), Source: bulkhead.Source{Features: features}})
	if err != nil {
		w.Fatal(err)
	}
	return v
}

// year has the school learn 700 delivered messages, of which 100 are spam, and 60 reports.
func (w *school) year() {
	w.Helper()
	for n := range 600 {
		w.deliver(1000+n, words("minutes", n))
	}
	for n := range 100 {
		w.deliver(2000+n, words("prize", n))
		if n < 60 {
			w.vote(bulkhead.Spam, n%7, 2000+n, nil)
		}
	}
}

// TestLearning checks what a node learns from deliveries and reports, and what is learnt once.
func TestLearning(t *testing.T) {
	w := newSchool(t, Options{})
	w.year()
	s := w.Learned()
	if s.Reported != 60 || s.Delivered < 605 || s.Delivered > 650 || s.Share < 0.5 || s.Share > 1 {
		t.Errorf("learnt %+v", s)
	}
	fresh := w.check(9000, words("prize", 5))
	if fresh.Class != bulkhead.ClassSuspected || fresh.Rule != "words" || fresh.Learned < 0.99 ||
		!strings.Contains(fresh.Reasons[0], `"prize`) {
		t.Errorf("fresh spam: %+v", fresh)
	}
	if v := w.check(9001, words("minutes", 5)); v.Class != bulkhead.ClassUnknown || v.Learned > -0.99 {
		t.Errorf("fresh mail: %+v", v)
	}
	if v := w.check(9002, nil); v.Learned != 0 {
		t.Errorf("a digest alone has the score %v", v.Learned)
	}
	w.deliver(9000, words("prize", 5)) // the node's own verdict is not learnt
	before := w.Learned()
	if before.Delivered != s.Delivered || before.Messages != s.Messages+1 {
		t.Errorf("learnt %+v of a message that the score condemns, before %+v", before, s)
	}
	w.deliver(1000, words("minutes", 0))
	w.vote(bulkhead.Spam, 8, 2000, nil)
	report(t, w.Engine, bulkhead.Report{Signatures: text(9003), Vote: bulkhead.Spam, Trap: true,
		Source: bulkhead.Source{Features: words("minutes", 3)}, Reporter: bulkhead.Reporter{Account: "site"}})
	if after := w.Learned(); after != before {
		t.Errorf("learnt %+v of what counts for nothing, before %+v", after, before)
	}
	w.vote(bulkhead.Ham, 1, 9000, words("prize", 5))
	if v := w.check(9000, words("prize", 5)); v.Class == bulkhead.ClassSuspected {
		t.Errorf("wanted mail: %+v", v)
	}
	if after := w.Learned(); after.Delivered != before.Delivered+1 {
		t.Errorf("%d delivered after \"not junk\", before %d", after.Delivered, before.Delivered)
	}
}

// TestLearningFromCollections checks that kept mail is learnt once, and from trusted accounts alone.
func TestLearningFromCollections(t *testing.T) {
	w := newSchool(t, Options{})
	site := bulkhead.Reporter{Account: "site"}
	for range 2 {
		for spam, want := range map[bool]learned.State{false: {Delivered: 1}, true: {Reported: 1, Delivered: 1}} {
			n := 10
			if spam {
				n = 11
			}
			if err := w.Learn(t.Context(), site, text(n), words("prize", n), spam); err != nil {
				t.Fatal(err)
			}
			if s := w.Learned(); s.Delivered < want.Delivered || s.Reported < want.Reported || s.Delivered+s.Reported > 3 {
				t.Errorf("learnt %+v", s)
			}
		}
	}
	stranger := bulkhead.Reporter{Addr: netip.MustParseAddr("192.0.2.1")}
	err := w.Learn(t.Context(), stranger, text(12), words("prize", 1), true)
	if !errors.Is(err, bulkhead.ErrUnauthorised) && !errors.Is(err, bulkhead.ErrForbidden) {
		t.Errorf("a stranger teaches: %v", err)
	}
	for name, err := range map[string]error{
		"no text":         w.Learn(t.Context(), site, []bulkhead.Signature{sig(bulkhead.Near, 1)}, words("a", 1), true),
		"no words":        w.Learn(t.Context(), site, text(13), nil, true),
		"learning is off": open(t, Options{}).Learn(t.Context(), site, text(14), words("a", 1), true),
	} {
		if !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s := w.Learned(); s.Delivered != 2 || s.Reported != 1 {
		t.Errorf("learnt %+v", s)
	}
}

// TestLearningTakenBack checks that votes that are taken back, revoked or undone are taken back here.
func TestLearningTakenBack(t *testing.T) {
	for name, back := range map[string]func(w *school){
		"not junk": func(w *school) { w.vote(bulkhead.Ham, 3, 5000, nil) },
		"revoked":  func(w *school) { w.vote(bulkhead.Revocation, 4, 5000, nil) },
		"undone": func(w *school) {
			voice := trust.Standing{}
			var err error
			if voice, err = w.Accounts().Standing(bulkhead.Reporter{Account: "site", User: "user3"}); err != nil {
				w.Fatal(err)
			}
			if _, err := w.UndoVotes(w.Context(), voice.Voice, time.Time{}); err != nil {
				w.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSchool(t, Options{})
			w.deliver(5000, words("minutes", 1))
			w.vote(bulkhead.Spam, 3, 5000, nil)
			if s := w.Learned(); s.Reported != 1 {
				t.Fatalf("learnt %+v", s)
			}
			if back(w); w.Learned().Reported != 0 {
				t.Errorf("learnt %+v", w.Learned())
			}
			if w.vote(bulkhead.Spam, 5, 5000, nil); name == "undone" && w.Learned().Reported != 1 {
				t.Errorf("learnt %+v after another report", w.Learned())
			}
		})
	}
}

// TestLearningIsDurable checks that what is learnt survives a crash before, between and after
// checkpoints, exactly.
func TestLearningIsDurable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	st := openStore(t, dir)
	w := newSchool(t, Options{Store: st})
	for stage := range 3 {
		for n := range 40 {
			w.deliver(100*stage+n, words("minutes", n))
			w.deliver(5000+100*stage+n, words("prize", n))
			w.vote(bulkhead.Spam, n%3, 5000+100*stage+n, nil)
		}
		w.vote(bulkhead.Ham, 8, 5000+100*stage, nil)
		w.vote(bulkhead.Ham, 9, 5000+100*stage, nil)
		crashed(t, w, dir, fmt.Sprint("crash ", stage))
		writeCheckpoint(t, w.Engine)
		crashed(t, w, dir, fmt.Sprint("checkpoint ", stage))
	}
}

// crashed opens a copy of a running node's folder, and compares what it has learnt.
func crashed(t *testing.T, w *school, dir, name string) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(copied, 0o700); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(copied, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	e, err := Open(t.Context(), small(Options{Store: st, LearnBytes: 4 << 20}))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	if got, want := e.Learned(), w.Learned(); got != want || got == (learned.State{}) {
		t.Errorf("%s: learnt %+v, want %+v", name, got, want)
	}
	again := &school{t, e}
	for n := range 30 {
		for _, subject := range []string{"minutes", "prize"} {
			got, want := again.check(n, words(subject, n)), w.check(n, words(subject, n))
			if got.Learned != want.Learned {
				t.Errorf("%s: score %v, want %v", name, got.Learned, want.Learned)
			}
		}
	}
}

// TestLearningFromKnownSenders checks that mail like reported mail counts as delivered if it comes from a sender of
// good standing, and only then: readers see it unmarked, and would report it.
func TestLearningFromKnownSenders(t *testing.T) {
	c := newClock()
	w := newSchool(t, Options{Now: c.Now})
	n := 20_000
	deliver := func(sender, subject string) {
		n++
		report(t, w.Engine, bulkhead.Report{Signatures: append(text(n), bulkhead.NamedSignature(bulkhead.Sender, sender)),
			Source: bulkhead.Source{Features: words(subject, n)}, Reporter: bulkhead.Reporter{Account: "site"},
			Recipients: []string{fmt.Sprintf("user%d@here.example", n%9)}})
	}
	for range 3 {
		for range 5 {
			deliver("known.example", "minutes")
		}
		c.Advance(24 * time.Hour)
	}
	w.year()
	for sender, want := range map[string]int64{"known.example": 1, "new.example": 0} {
		before := w.Learned()
		deliver(sender, "prize")
		if after := w.Learned(); after.Delivered != before.Delivered+want || after.Messages != before.Messages+1 {
			t.Errorf("mail of %s: learnt %+v, before %+v", sender, after, before)
		}
	}
}

// TestSharedWordsAfterCrash has a node crash after a round and one further message. The journal repeats all messages
// to the next process, and none of them counts for its first round: the round would show the words of one message.
func TestSharedWordsAfterCrash(t *testing.T) {
	dir, mesh := filepath.Join(t.TempDir(), "data"), t.TempDir()
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	st := openStore(t, dir)
	w := newSchool(t, Options{Store: st, Teach: true})
	for n := range 80 {
		w.deliver(n, words("minutes", n))
	}
	if !w.Lessons().Round() {
		t.Fatal("no round of 80 messages")
	}
	if err := w.Lessons().SaveTaught(mesh); err != nil {
		t.Fatal(err)
	}
	before := w.Lessons().Answer(&lesson.Study{})
	w.deliver(80, words("minutes", 80))

	copied := filepath.Join(t.TempDir(), "copy")
	if err := errors.Join(os.CopyFS(copied, os.DirFS(dir)), os.Chmod(copied, 0o700)); err != nil {
		t.Fatal(err)
	}
	again, err := store.Open(copied, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { again.Close() })
	e := &school{t, open(t, Options{Store: again, LearnBytes: 4 << 20, Teach: true})}
	if err := e.Lessons().Load(mesh, nil); err != nil {
		t.Fatal(err)
	}
	if e.Learned() != w.Learned() {
		t.Fatalf("learnt %+v after the crash, %+v before", e.Learned(), w.Learned())
	}
	for n := range 50 {
		if e.Lessons().Round() || !reflect.DeepEqual(e.Lessons().Answer(&lesson.Study{}), before) {
			t.Fatalf("a round with %d new messages", n)
		}
		e.deliver(100+n, words("minutes", n))
	}
	if !e.Lessons().Round() {
		t.Error("no round with 50 new messages")
	}
	if got := e.Lessons().Answer(&lesson.Study{})[0].Live[0].All.Delivered; got != 131 {
		t.Errorf("taught %d deliveries, want 131", got)
	}
}

// TestWhoIsTwoPeople checks which two messages show a word to peers: those of two recipients or of two voters, and not
// of one human by two ways.
func TestWhoIsTwoPeople(t *testing.T) {
	site := func(account, user string) bulkhead.Reporter { return bulkhead.Reporter{Account: account, User: user} }
	delivered := func(to ...string) bulkhead.Report {
		return bulkhead.Report{Reporter: site("site", ""), Recipients: to}
	}
	spam := func(who bulkhead.Reporter) bulkhead.Report {
		return bulkhead.Report{Vote: bulkhead.Spam, Reporter: who}
	}
	by := func(account string) bulkhead.Report { return bulkhead.Report{Reporter: site(account, "")} }
	for name, x := range map[string]struct {
		reports [2]bulkhead.Report
		shared  bool
	}{
		"two recipients":                  {[2]bulkhead.Report{delivered("ann@a.example"), delivered("bob@a.example")}, true},
		"one recipient":                   {[2]bulkhead.Report{delivered("a@a.example"), delivered("a@a.example")}, false},
		"two voters":                      {[2]bulkhead.Report{spam(site("site", "ann")), spam(site("site", "bob"))}, true},
		"one voter":                       {[2]bulkhead.Report{spam(site("site", "ann")), spam(site("site", "ann"))}, false},
		"one voter by two services":       {[2]bulkhead.Report{spam(site("site", "ann")), spam(site("other", "Ann"))}, false},
		"a recipient and a voter":         {[2]bulkhead.Report{delivered("ann@a.example"), spam(site("site", "bob"))}, false},
		"two programs without recipients": {[2]bulkhead.Report{by("site"), by("other")}, false},
	} {
		w := newSchool(t, Options{Teach: true})
		if err := w.PutAccount(t.Context(), trust.Account{Name: "other", Role: trust.Trusted, Weight: 1}); err != nil {
			t.Fatal(err)
		}
		token := learn.Of(w.current.Books().Secrets.Present(), "w:secret")
		for n, r := range x.reports {
			r.Signatures, r.Source.Features = text(n), []string{"w:secret"}
			report(w, w.Engine, r)
		}
		for n := range 60 {
			w.deliver(100+n, words("minutes", n))
		}
		if !w.Lessons().Round() {
			t.Fatal("no round")
		}
		shared := false
		for _, l := range w.Lessons().Answer(&lesson.Study{}) {
			for _, e := range l.Entries {
				shared = shared || e.Token == token
			}
		}
		if shared != x.shared {
			t.Errorf("%s: the word is shared: %v, want %v", name, shared, x.shared)
		}
	}
	// The account that runs "bulkhead learn" over a mailbox may also have voted.
	w := newSchool(t, Options{Teach: true})
	if err := w.Learn(t.Context(), site("site", ""), text(1), []string{"w:secret"}, false); err != nil {
		t.Fatal(err)
	}
	r := spam(site("site", ""))
	r.Signatures, r.Source.Features = text(2), []string{"w:secret"}
	report(w, w.Engine, r)
	for n := range 60 {
		w.deliver(100+n, words("minutes", n))
	}
	w.Lessons().Round()
	for _, l := range w.Lessons().Answer(&lesson.Study{}) {
		for _, e := range l.Entries {
			if e.Token == learn.Of(w.current.Books().Secrets.Present(), "w:secret") {
				t.Error("one account has learnt mail and voted, and the word is shared")
			}
		}
	}
}

// TestLearningUnderAnotherSecret checks that a node goes on with its score when the secret of its network
// changes.
func TestLearningUnderAnotherSecret(t *testing.T) {
	w := newSchool(t, Options{})
	w.year()
	before := w.check(9000, words("prize", 5)).Learned
	if err := w.Rekey(t.Context(), [16]byte{77}); err != nil {
		t.Fatal(err)
	}
	if after := w.check(9000, words("prize", 5)).Learned; after < 0.99 || before < 0.99 {
		t.Errorf("score %v, before the change %v", after, before)
	}
	reported := w.Learned().Reported
	w.vote(bulkhead.Spam, 1, 9100, words("prize", 3))
	if got := w.Learned().Reported; got != reported+1 {
		t.Errorf("%d reports after a report under another secret, want %d", got, reported+1)
	}
}
