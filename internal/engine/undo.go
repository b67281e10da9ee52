package engine

import (
	"context"
	"errors"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine/ballots"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
	"github.com/bulkhead-mail/bulkhead/internal/engine/resolve"
)

// ballotBytes limits the memory for the record of who voted on what: some 10,000 votes
// on whole messages.
const ballotBytes = 32 << 20

// Undone is the result of [Engine.UndoVotes], in signatures and pairs of a text with a
// link or sender.
type Undone struct {
	Votes   int       // taken back
	Off, On int       // of these, newly off the blocklist or on it
	Oldest  time.Time // of all votes that are remembered; zero if there are none
}

// A retraction takes back votes of one voice.
type retraction struct {
	secrets *keys.Secrets
	voice   string
	items   []ballots.Item
	off, on int
}

func (x *retraction) signatures() int { return len(x.items) }

func (x *retraction) under() *keys.Secrets { return x.secrets }

func (x *retraction) decide(r *resolve.Resolver) error {
	x.off, x.on = r.Retract(x.voice, x.items)
	return nil
}

// UndoVotes takes back the votes of a voice, see [trust.Standing], at or after a time,
// as far as they are remembered: the record has a fixed size. The result is durable when
// UndoVotes returns nil; after an error a part may be.
func (e *Engine) UndoVotes(ctx context.Context, voice string, since time.Time) (Undone, error) {
	return e.retract(voice, since, func(x *retraction) error { return e.add(ctx, x) })
}

// PreviewUndo returns what [Engine.UndoVotes] would do now. It takes nothing back.
func (e *Engine) PreviewUndo(ctx context.Context, voice string, since time.Time) (Undone, error) {
	return e.retract(voice, since, func(x *retraction) error { return e.try(ctx, x) })
}

// retract passes the votes of a voice at or after a time to carry, in parts that one batch
// can hold, and adds up the results.
func (e *Engine) retract(voice string, since time.Time, carry func(*retraction) error) (Undone, error) {
	var u Undone
	if oldest, n := e.ballots.Oldest(); n > 0 {
		u.Oldest = time.Unix(int64(oldest), 0).UTC()
	}
	secrets := e.books.Load().secrets
	items := e.ballots.Of(secrets.Maker().Voice(voice), unixSecond(since))
	for len(items) > 0 {
		x := &retraction{secrets: secrets, voice: voice, items: items[:min(len(items), MaxSignatures)]}
		if err := carry(x); err != nil {
			return u, err
		}
		u.Votes, u.Off, u.On = u.Votes+len(x.items), u.Off+x.off, u.On+x.on
		items = items[len(x.items):]
	}
	return u, nil
}

// try decides a retraction on the writer's goroutine and drops the decisions: the next
// batch begins without them.
func (e *Engine) try(ctx context.Context, x *retraction) (err error) {
	refused := e.inTurn(ctx, func() {
		if err = e.refusing(); err == nil {
			err = e.open()
		}
		if err != nil {
			return
		}
		s := e.sources()
		if x.under() != s.view.secrets {
			err = errOtherSecret
			return
		}
		e.resolver.Begin(s.view.evidence(), s.Sources)
		err = x.decide(e.resolver)
	})
	return errors.Join(refused, err)
}

// Votes returns on how many signatures and pairs a voice has votes that are remembered:
// what [Engine.UndoVotes] takes back if it is given the earliest time.
func (e *Engine) Votes(voice string) int {
	return len(e.ballots.Of(e.books.Load().secrets.Maker().Voice(voice), 0))
}

// unixSecond returns the Unix second of a time, 0 if it is earlier.
func unixSecond(t time.Time) uint64 { return uint64(max(0, t.Unix())) }

// Voted reports of each voice whether votes of it at or after a time are remembered, which
// [Engine.UndoVotes] would take back.
func (e *Engine) Voted(voices []string, since time.Time) []bool {
	known := e.ballots.Voices(unixSecond(since))
	maker := e.books.Load().secrets.Maker()
	out := make([]bool, len(voices))
	for i, voice := range voices {
		out[i] = known[maker.Voice(voice)]
	}
	return out
}
