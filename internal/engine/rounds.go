package engine

import (
	"context"
	"fmt"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
	"github.com/bulkhead-mail/bulkhead/internal/engine/learned"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/engine/resolve"
	"github.com/bulkhead-mail/bulkhead/internal/learn"
	"github.com/bulkhead-mail/bulkhead/internal/lesson"
)

// Record starts or stops recording the changes of the own arrays, for
// [Engine.TakeRounds].
func (e *Engine) Record(ctx context.Context, on bool) error {
	return e.queue.inTurn(ctx, func() {
		e.writer.recorder = recorder{on: on, rounds: make(map[replica.Key]*recording)}
	})
}

// TakeRounds returns the changes of the own arrays since the last call, encoded. An unchanged array
// has no part. An array with many changes, or one whose images were made since, has several parts,
// each of which continues the one before. own is the result of [Engine.Own] at that moment: the
// versions to which the rounds lead. After an error, no changes have been taken.
func (e *Engine) TakeRounds(ctx context.Context) (parts []Part, own []ArrayState, err error) {
	var recorded map[replica.Key]*recording
	var secrets *keys.Secrets
	err = e.queue.inTurn(ctx, func() {
		recorded, own, secrets = e.writer.recorder.take(), e.Own(), e.current.Books().Secrets
	})
	if err != nil {
		return nil, nil, err
	}
	for key, rec := range recorded {
		for _, r := range rec.rounds {
			if !secrets.Shares(r.Geometry.KeyID) {
				continue
			}
			r.Close()
			for _, r := range r.Split(maxRound) {
				parts = append(parts, Part{Array: key.Array, Start: key.Start, Geometry: r.Geometry, Round: r.AppendBody(nil),
					From: r.From, To: r.To})
			}
		}
	}
	return parts, own, nil
}

// Own returns the node's own arrays that are shared, newest generations first. They are the arrays
// made with the network's current secret and with its former secrets. Their states describe the
// part that peers see, see [BookOptions].
func (e *Engine) Own() []ArrayState { return e.current.Books().States() }

// Images returns the images of all pages of an own array at one moment, as parts, and the array's
// version at that moment. It returns an error that wraps [bulkhead.ErrMalformed] if there is no
// such array. A new round begins at that version.
func (e *Engine) Images(ctx context.Context, a Array, start uint64) (version uint64, parts []Part, err error) {
	var images []*arrays.Image
	found := false
	err = e.queue.inTurn(ctx, func() {
		// Copying is fast and encoding is slow, so only the copy is made between batches.
		key := replica.Key{Array: a, Start: start}
		if own := e.current.Books().Shared(key); own != nil {
			found, version = true, own.Version()
			for p := range own.Pages() {
				images = append(images, own.Image(p))
			}
		}
		// A receiver of the images continues with the rounds from there.
		e.writer.recorder.cut(key)
	})
	if err != nil {
		return 0, nil, err
	}
	if !found {
		return 0, nil, fmt.Errorf("%w: no own array %.20q of generation %d", bulkhead.ErrMalformed, a, start)
	}
	for _, m := range images {
		parts = append(parts, Part{Array: a, Start: start, Geometry: m.Geometry, Image: m.Append(nil), At: version})
	}
	return version, parts, nil
}

// maxRecorded is the maximum number of recorded adds to one array. If the rounds are not taken
// before they exceed it, they are discarded; receivers then find a gap and request images.
const maxRecorded = 1 << 20

// A recorder stores the rounds of the node's own arrays. Only the writer uses it.
type recorder struct {
	on     bool
	rounds map[replica.Key]*recording
}

// A recording holds the changes of one array since its rounds were last taken.
type recording struct {
	rounds []*arrays.Round // each begins where the one before ends
	adds   int
	cut    bool // the next add begins a new round
}

// begin returns the recording of an array that is about to change, or nil if recording is off.
// first begins a round at the array's present version.
func (r *recorder) begin(key replica.Key, first func() *arrays.Round) *recording {
	if !r.on {
		return nil
	}
	rec := r.rounds[key]
	if rec == nil || rec.adds > maxRecorded {
		rec = &recording{rounds: []*arrays.Round{first()}}
		r.rounds[key] = rec
	}
	return rec
}

// note calls record with the round that takes the adds.
func (c *recording) note(record func(r *arrays.Round)) {
	last := c.rounds[len(c.rounds)-1]
	r := last
	if c.cut && last.Len() > 0 {
		r = last.Next()
	}
	had := r.Len()
	record(r)
	if r.Len() == had {
		return // no peer sees these adds
	}
	if r != last {
		c.rounds = append(c.rounds, r)
	}
	c.adds += r.Len() - had
	c.cut = false
}

// take returns the recorded rounds, and starts new recordings.
func (r *recorder) take() map[replica.Key]*recording {
	rounds := r.rounds
	r.rounds = make(map[replica.Key]*recording)
	return rounds
}

// cut makes the next add to an array begin a new round.
func (r *recorder) cut(key replica.Key) {
	if rec := r.rounds[key]; rec != nil {
		rec.cut = true
	}
}

// forget discards the recording of an array whose content was replaced.
func (r *recorder) forget(key replica.Key) { delete(r.rounds, key) }

// openLearned makes the book of words and style, and with Teach the exchange of its counts.
func (e *Engine) openLearned() {
	o := learned.Options{Bytes: e.opts.LearnBytes}
	if e.opts.Teach {
		o.Learnt = func(m lesson.Learnt) { e.lessons.Learnt(m) }
	}
	e.learned = learned.New(o)
	if e.opts.Teach && e.learned.On() {
		e.lessons = lesson.New(lesson.Options{Source: e.learned, Bytes: e.opts.LearnBytes, Known: e.Knows,
			Set: e.learned.SetOthers})
	}
}

// Lessons returns the exchange of words and style with peers; nil if the engine has none.
func (e *Engine) Lessons() *lesson.Exchange { return e.lessons }

// likelyWanted is the score below which a delivered message tests what single peers teach.
const likelyWanted = 0.5

// tryPeers judges a delivered message by what one peer teaches, unless the message may be spam.
func (e *Engine) tryPeers(seen *resolve.Seen, tokens []learn.Token, keyID uint64) {
	if e.lessons != nil && !seen.Flagged && !seen.Caught && seen.Learned < likelyWanted {
		e.lessons.Try(tokens, keyID, e.learned.Known())
	}
}
