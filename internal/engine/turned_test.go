package engine

import (
	"context"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// tight is a blocklist in which errors are frequent enough to be counted.
func tight(secret byte) Options {
	return Options{Secret: filter.Secret{secret}, Now: newClock().Now, Votes: 500_000,
		Block: BookOptions{Generation: 7 * 24 * time.Hour, Keep: 2, Capacity: 15_000, Error: 0.2}}
}

// voteOn reports the exact signatures from the first to the last, each as spam or revoked.
func voteOn(t *testing.T, e *Engine, first, last int, v bulkhead.Vote) {
	t.Helper()
	for n := first; n < last; n += 500 {
		r := bulkhead.Report{Vote: v}
		for i := n; i < min(n+500, last); i++ {
			r.Signatures = append(r.Signatures, sig(bulkhead.Exact, i))
		}
		report(t, e, r)
	}
}

// within fails unless n of a number of cases agrees with the probability p, by the exact
// 99.9 % interval.
func within(t *testing.T, what string, n, of int, p float64) {
	t.Helper()
	if of == 0 {
		return
	}
	low, high := exactInterval(n, of, 0.001)
	t.Logf("%s: %d of %d (%.4f to %.4f), stated %.4f", what, n, of, low, high, p)
	if p < low || p > high {
		t.Errorf("%s: %d of %d, %.4f to %.4f, stated %.4f", what, n, of, low, high, p)
	}
}

// TestRevocationError: spam is hidden by the revocation filter, or listed again after a revocation,
// as often as the verdict states, on this node and on one that has only its replica.
func TestRevocationError(t *testing.T) {
	for _, tt := range []struct {
		name              string
		early, spam, late int // the first ones revoked before the next are listed, and the last ones after
	}{
		{"hidden", 0, 6000, 10_600},
		{"listed again", 2500, 17_500, 17_500},
	} {
		var own, peers counted
		var p [2]float64
		const engines = 2
		for secret := range byte(engines) {
			e, home := open(t, tight(1+secret)), open(t, tight(1+secret))
			voteOn(t, e, 0, tt.early, bulkhead.Spam)
			voteOn(t, e, 0, tt.early, bulkhead.Revocation)
			before := ghosts(e)
			voteOn(t, e, tt.early, tt.late, bulkhead.Spam)
			voteOn(t, e, tt.spam, tt.late, bulkhead.Revocation)
			after := ghosts(e)
			for i := range p {
				// A false positive that exists when the opposite vote is cast is overtaken by that
				// vote's turn, so only later ones err. A false next turn of the other filter may
				// compensate for it.
				p[i] += (after[i] - before[i]) * (1 - after[1-i]) / engines
			}
			if err := home.SetOrigins(context.Background(), []Origin{{ID: "p", Weight: 1}}); err != nil {
				t.Fatal(err)
			}
			transfer(t, e, home, "p")
			for _, e := range []*Engine{e, home} {
				e.checker.Measure()
				// These are the errors of many lines with the average fill of these.
				o := e.checker.Odds()
				stated := [2]float64{o.Finding(&bulkhead.Finding{Judged: bulkhead.JudgedSpam}), o.Revoked()}
				for i := range stated {
					if stated[i] < 0.8*after[i] || stated[i] > max(1e-3, 1.2*after[i]) {
						t.Errorf("stated %v, line by line %v", stated, after)
					}
				}
				c := &own
				if e == home {
					c = &peers
				}
				for i := range tt.spam {
					c.see(t, i < tt.early, verdictOf(t, e, sig(bulkhead.Exact, i)), stated)
				}
			}
		}
		for where, c := range map[string]counted{"": own, " at a peer": peers} {
			within(t, tt.name+", what was revoked"+where, c.again, c.gone, p[0])
			within(t, tt.name+", what was not"+where, c.hidden, c.of, p[1])
		}
		if max(own.hidden, own.again) < 400 {
			t.Errorf("%s: %d hidden and %d listed again are too few to say anything", tt.name, own.hidden, own.again)
		}
	}
}

// ghosts returns the errors of the spam filter and of the revocation filter of the one
// generation of a blocklist, line by line.
func ghosts(e *Engine) (p [2]float64) {
	g := e.current.View().Block.Live[0]
	for i, array := range []any{g.Spam, g.Revoked} {
		p[i] = array.(interface{ Shown(uint64) float64 }).Shown(0)
	}
	return p
}

// counted is how often the filters were wrong about signatures that are spam, and about
// such that were revoked.
type counted struct{ hidden, of, again, gone int }

// see counts a verdict on one signature. A wrong one must state what made it wrong.
func (c *counted) see(t *testing.T, revoked bool, v bulkhead.Verdict, stated [2]float64) {
	t.Helper()
	judged, least := v.Findings[0].Judged == bulkhead.JudgedSpam, 0.0
	switch {
	case revoked && judged:
		c.again++
		least = stated[0]
	case !judged && !revoked:
		c.hidden++
		least = stated[1]
	}
	if revoked {
		c.gone++
	} else {
		c.of++
	}
	if v.Error < least || v.Findings[0].Error < least || v.Error > 1 {
		t.Fatalf("revoked %v, spam %v: error %v, of the signature %v; want at least %v", revoked, judged, v.Error,
			v.Findings[0].Error, least)
	}
}
