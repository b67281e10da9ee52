package engine

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine/learned"
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
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
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
