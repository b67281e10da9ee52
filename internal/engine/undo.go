package engine

import (
	"context"
	"errors"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine/ballots"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
	"github.com/bulkhead-mail/bulkhead/internal/engine/resolve"
)

// ballotBytes limits the memory in bytes for the record of who voted on what. It holds about 10,000
// votes on whole messages.
const ballotBytes = 32 << 20

// Undone is the result of [Engine.UndoVotes], in signatures and pairs of a text with a
// link or sender.
type Undone struct {
	Votes   int       // taken back
	Off, On int       // signatures newly taken off the blocklist, or newly listed
	Oldest  time.Time // time of the oldest remembered vote; zero if there is none
}

// A retraction retracts votes of one voice.
type retraction struct {
	secrets            *keys.Secrets
	voice              string
	items              []ballots.Item
	delisted, relisted int
}

func (x *retraction) signatures() int { return len(x.items) }

func (x *retraction) under() *keys.Secrets { return x.secrets }

func (x *retraction) decide(r *resolve.Resolver) error {
	x.delisted, x.relisted = r.Retract(x.voice, x.items)
	return nil
}

// UndoVotes retracts the votes of a voice, see [trust.Standing], at or after a time, as far as they
// are remembered: the record has a fixed size. The result is durable when UndoVotes returns nil.
// After an error, a part of it may be durable.
func (e *Engine) UndoVotes(ctx context.Context, voice string, since time.Time) (Undone, error) {
	return e.retract(voice, since, func(x *retraction) error { return e.queue.add(ctx, x) })
}

// PreviewUndo returns the result that [Engine.UndoVotes] would have now. It retracts nothing.
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
	secrets := e.current.Books().Secrets
	items := e.ballots.Of(secrets.Maker().Voice(voice), unixSecond(since))
	for len(items) > 0 {
		x := &retraction{secrets: secrets, voice: voice, items: items[:min(len(items), MaxSignatures)]}
		if err := carry(x); err != nil {
			return u, err
		}
		u.Votes, u.Off, u.On = u.Votes+len(x.items), u.Off+x.delisted, u.On+x.relisted
		items = items[len(x.items):]
	}
	return u, nil
}

// try decides a retraction on the writer's goroutine and drops the decisions: the next
// batch begins without them.
func (e *Engine) try(ctx context.Context, x *retraction) (err error) {
	refused := e.queue.inTurn(ctx, func() {
		if err = e.decidable(); err != nil {
			return
		}
		s := e.checker.Sources()
		if x.under() != s.View.Secrets {
			err = errOtherSecret
			return
		}
		e.writer.resolver.Begin(s.View.Evidence(), s.Sources)
		err = x.decide(e.writer.resolver)
	})
	return errors.Join(refused, err)
}

// Votes returns the number of signatures and pairs with remembered votes of a voice. These are the
// votes that [Engine.UndoVotes] retracts for the earliest possible time.
func (e *Engine) Votes(voice string) int {
	return len(e.ballots.Of(e.current.Books().Secrets.Maker().Voice(voice), 0))
}

// unixSecond returns the Unix second of a time, or 0 for a time before 1970.
func unixSecond(t time.Time) uint64 { return uint64(max(0, t.Unix())) }

// Voted reports for each voice whether it has remembered votes at or after a time, which
// [Engine.UndoVotes] would retract.
func (e *Engine) Voted(voices []string, since time.Time) []bool {
	known := e.ballots.Voices(unixSecond(since))
	maker := e.current.Books().Secrets.Maker()
	out := make([]bool, len(voices))
	for i, voice := range voices {
		out[i] = known[maker.Voice(voice)]
	}
	return out
}
