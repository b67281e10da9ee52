package mesh

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/testing/bubble"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/logtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
	accounts "github.com/bulkhead-mail/bulkhead/internal/trust"
)

// A pupil is a site whose engine learns, with many users.
type pupil struct {
	*testing.T
	*engine.Engine
	n int // texts so far
}

func newPupil(t *testing.T, first int) *pupil {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{
		Secret: enginetest.Secret, LearnBytes: 4 << 20, Teach: true,
		Tally: engine.BookOptions{Generation: 24 * time.Hour, Keep: 3, Capacity: 20000, Error: 1e-3},
		Block: engine.BookOptions{Generation: 7 * 24 * time.Hour, Keep: 2, Capacity: 20000, Error: 1e-6},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := e.PutAccount(t.Context(), accounts.Account{Name: "site", Role: accounts.Trusted, Weight: 1}); err != nil {
		t.Fatal(err)
	}
	return &pupil{t, e, first}
}

// subject returns the words of message n of a kind: some of the kind, and some that all kinds have.
func subject(kind string, n int) (out []string) {
	for i := range 12 {
		out = append(out, fmt.Sprint("w:", kind, (n+i)%14))
	}
	return append(out, fmt.Sprint("w:common", n%3))
}

// learn counts message n of a kind, with a word of its own.
func (p *pupil) learn(vote bulkhead.Vote, kind string, n int) (text int) {
	p.Helper()
	p.n++
	r := bulkhead.Report{Signatures: []bulkhead.Signature{enginetest.Signature(p.n)}, Vote: vote,
		Source:   bulkhead.Source{Features: append(subject(kind, n), fmt.Sprint("w:own", p.n))},
		Reporter: bulkhead.Reporter{Account: "site"}}
	if vote == bulkhead.Sighting {
		r.Recipients = []string{fmt.Sprintf("user%d@here.example", p.n%9)}
	} else {
		r.Reporter.User = fmt.Sprint("user", p.n%7)
	}
	p.report(r)
	return p.n
}

func (p *pupil) report(r bulkhead.Report) {
	p.Helper()
	if _, err := p.Report(p.Context(), r); err != nil {
		p.Fatal(err)
	}
}

// score returns the score of a message of a kind that was never seen.
func (p *pupil) score(kind string, n int) float64 {
	p.Helper()
	v, err := p.Check(p.Context(), bulkhead.Query{Signatures: []bulkhead.Signature{enginetest.Signature(1 << 30)},
		Source: bulkhead.Source{Features: subject(kind, n)}})
	if err != nil {
		p.Fatal(err)
	}
	return v.Learned
}

// sameScores reports whether two nodes agree on all kinds, to the last digit.
func sameScores(a, b *pupil) bool {
	for n := range 14 {
		for _, kind := range []string{"prize", "minutes", "common"} {
			if a.score(kind, n) != b.score(kind, n) {
				return false
			}
		}
	}
	return true
}

// TestLearningTogether has five nodes with a fifth of the mail each share their counts of words through a
// hub. They agree with one node that has all of it to the last digit: before and after votes are taken back,
// and after a restart. No cap binds, because all have the same mail. A node that does not share learns
// nothing, and what an evicted peer taught is forgotten.
func TestLearningTogether(t *testing.T) {
	address := freePort(t)
	whole := newPupil(t, 1<<20)
	var pupils []*pupil
	var meshes []*Mesh
	var stops []func()
	var options []Options
	reported := make(map[*pupil]int)
	for i := range 6 {
		p := newPupil(t, 10_000*i)
		dir, id := meshtest.Folder(t)
		o := quick(Options{Dir: dir, Identity: id, Engine: p.Engine, Mode: member.Join, Servers: []string{address},
			Name: fmt.Sprint(i), Lessons: p.Lessons()})
		switch i {
		case 0:
			o.Mode, o.Servers, o.Listen = member.Hub, nil, address
		case 5:
			o.Lessons = nil // does not share
		}
		for n := range 56 {
			p.learn(bulkhead.Sighting, "minutes", n)
			if n%2 == 0 {
				reported[p] = p.learn(bulkhead.Spam, "prize", n)
			}
			if i < 5 {
				whole.learn(bulkhead.Sighting, "minutes", n)
			}
			if i < 5 && n%2 == 0 {
				whole.learn(bulkhead.Spam, "prize", n)
			}
		}
		m, stop := start(t, o)
		pupils, meshes, stops, options = append(pupils, p), append(meshes, m), append(stops, stop), append(options, o)
	}
	alone := pupils[5].score("prize", 3)
	befriend(t, meshes...)
	agreed := func(when string) {
		t.Helper()
		for i, p := range pupils[:5] {
			enginetest.Eventually(t, time.Minute, fmt.Sprintf("node %d agrees %s", i, when),
				func() bool { return sameScores(p, whole) })
		}
	}
	agreed("with the node that has all mail")
	if s := whole.score("prize", 3); s < 0.99 || whole.score("minutes", 3) > -0.99 {
		t.Errorf("spam has the score %v", s)
	}

	if got := pupils[5].score("prize", 3); got != alone {
		t.Errorf("a node that does not share has the score %v, before %v", got, alone)
	}

	// Each site takes a report back, and gets further mail. A round takes 50 messages: while the meshes ran, one
	// could begin in the middle of this mail, and the rest would wait for the next round.
	for _, stop := range stops {
		stop()
	}
	for _, p := range append(pupils[:6:6], whole) {
		times := 1
		if p == whole {
			times = 5
		}
		for i := range times {
			text := reported[p]
			if p == whole {
				text = 1<<20 + 84*(i+1) - 1
			}
			p.report(bulkhead.Report{Signatures: []bulkhead.Signature{enginetest.Signature(text)}, Vote: bulkhead.Revocation,
				Reporter: bulkhead.Reporter{Account: "site", User: "postmaster"}})
			for n := range 56 {
				p.learn(bulkhead.Sighting, "minutes", n)
			}
		}
	}
	for i, o := range options {
		meshes[i], stops[i] = start(t, o)
	}
	if got, want := pupils[1].Learned().Reported, int64(27); got != want {
		t.Fatalf("%d reports after one was taken back, want %d", got, want)
	}
	agreed("after reports were taken back")

	stops[1]()
	if s := pupils[1].Lessons().Class.State(); len(s) > 0 {
		t.Errorf("holds %+v after the mesh has ended", s)
	}
	if !sameScores(pupils[1], pupils[5]) {
		t.Error("what peers taught counts after the mesh has ended")
	}
	again, err := prepare(t.Context(), options[1]) // connected to no peer
	if err != nil {
		t.Fatal(err)
	}
	if s := pupils[1].Lessons().Class.State(); len(s) != 4 {
		t.Errorf("read the lessons of %d peers from the disk, want 4", len(s))
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	meshes[1], _ = start(t, options[1])
	agreed("after a restart")

	if s := pupils[0].Lessons().Class.State(); len(s) != 4 {
		t.Errorf("holds lessons of %d peers, want 4: %+v", len(s), s)
	}
	for _, i := range []int{1, 2, 3, 4} {
		if err := meshes[0].EvictPeer(t.Context(), options[i].Identity.ID()); err != nil {
			t.Fatal(err)
		}
	}
	enginetest.Eventually(t, time.Minute, "the node judges by its own counts alone",
		func() bool { return sameScores(pupils[0], pupils[5]) })
}

// TestLessonsSaved checks when a node writes lessons: its own after each round, unless it only receives, and the
// lessons of peers each ten minutes, unless it only publishes.
func TestLessonsSaved(t *testing.T) {
	for _, role := range []member.Role{member.Both, member.Subscribe, member.Publish} {
		meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
			p := newPupil(t, 1)
			for n := range 56 {
				p.learn(bulkhead.Sighting, "minutes", n)
			}
			var log logtest.Log
			r := newRig(t, k, func(o *member.Options) {
				o.Role, o.Lessons, o.Log = role, p.Lessons(), log.Logger()
			})
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			go r.learnTogether(ctx)
			saved := func(taught, held bool) {
				t.Helper()
				synctest.Wait()
				for name, want := range map[string]bool{"lessons.taught": taught, "lessons.held": held} {
					path := filepath.Join(r.opts.Dir, name)
					if _, err := os.Stat(path); (err == nil) != want {
						t.Errorf("%s: %s: %v, want it there: %v", role, name, err, want)
					}
					os.Remove(path)
				}
			}
			bubble.Advance(r.opts.Interval)
			saved(role != member.Subscribe, false)
			bubble.Advance(saveLessons - r.opts.Interval - time.Nanosecond)
			saved(false, false)
			bubble.Advance(time.Nanosecond)
			saved(false, role != member.Publish)
			if log.String() != "" {
				t.Errorf("%s: log: %s", role, log.String())
			}
		})
	}
}

// TestLessonsRolledBack checks that a node logs lessons that it could not read or write, and that it forgets what a
// peer has taught of a generation that was rolled back.
func TestLessonsRolledBack(t *testing.T) {
	meshtest.Run(t, func(t *testing.T, k *meshtest.Broker) {
		p, teacher := newPupil(t, 1), newPupil(t, 1000)
		for n := range 56 {
			teacher.learn(bulkhead.Sighting, "minutes", n)
		}
		var log logtest.Log
		r := newRig(t, k, func(o *member.Options) {
			o.Lessons, o.Log = p.Lessons(), log.Logger()
			if err := os.WriteFile(filepath.Join(o.Dir, "lessons.held"), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		})
		if !log.Has("words learnt together not read") {
			t.Errorf("a damaged file is not logged: %s", log.String())
		}
		r.keepLessons()
		x := r.opts.Lessons
		teacher.Lessons().Round()
		start := uint64(0)
		for _, l := range teacher.Lessons().Answer(x.Study(r.Peer.ID())) {
			if err := x.Take(r.Peer.ID(), l); err != nil {
				t.Fatal(err)
			}
			start = l.Live[l.Of].Start
		}
		held := func() int { return x.Class.State()[0].Features }
		if held() == 0 {
			t.Fatal("nothing is taught")
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go r.learnTogether(ctx)
		synctest.Wait()
		if held() == 0 {
			t.Error("forgotten without reason")
		}
		if err := errors.Join(r.RollbackPeer(ctx, r.Peer.ID(), time.Unix(int64(start), 0)),
			os.RemoveAll(r.opts.Dir)); err != nil {
			t.Fatal(err)
		}
		bubble.Advance(r.opts.Interval)
		synctest.Wait()
		if held() != 0 {
			t.Error("what a peer taught counts after it was rolled back")
		}
		bubble.Advance(saveLessons)
		synctest.Wait()
		if !log.Has("words learnt together not saved") {
			t.Errorf("that nothing is saved is not logged: %s", log.String())
		}
	})
}
