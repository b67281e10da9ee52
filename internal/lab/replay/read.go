package replay

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/lab/letters"
	"github.com/bulkhead-mail/bulkhead/signature"
	"github.com/bulkhead-mail/bulkhead/signature/mail"
)

// A letter is what the replay keeps of one message.
type letter struct {
	name   string
	time   time.Time
	spam   bool
	size   int
	sigs   []bulkhead.Signature
	source bulkhead.Source
	err    error
}

// readReplay computes the signatures of all mail on every processor, and
// returns it in order of arrival.
func readReplay(ctx context.Context, mail iter.Seq2[Mail, error], opts *Options) ([]*letter, error) {
	n, last := 0, time.Time{}
	all, err := letters.Read(ctx, mail, func(m Mail) *letter {
		if !m.Time.IsZero() {
			last = m.Time
		}
		n++
		opts.Progress("reading", n, 0)
		return &letter{name: m.Name, time: last, spam: m.Spam, size: len(m.Raw)}
	}, func(ctx context.Context, m Mail, l *letter) {
		l.read(ctx, m.Raw, signature.Options{Key: replayKey, Skip: opts.Skip})
	})
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		if l.err != nil {
			return nil, fmt.Errorf("replay: %s: %w", l.name, l.err)
		}
	}
	slices.SortStableFunc(all, func(a, b *letter) int { return a.time.Compare(b.time) })
	return all, nil
}

// replayKey is the network key of the simulated network.
var replayKey = [16]byte{'r', 'e', 'p', 'l', 'a', 'y'}

func (l *letter) read(ctx context.Context, raw []byte, opts signature.Options) {
	m, err := mail.Read(ctx, raw)
	if err != nil {
		l.err = err
		return
	}
	l.source = m.Source()
	l.sigs, l.err = letters.Signed(ctx, m, nil, opts)
}
