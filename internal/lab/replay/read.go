package replay

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type job struct {
		raw []byte
		l   *letter
	}
	jobs := make(chan job)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for j := range jobs {
				j.l.read(ctx, j.raw, signature.Options{Key: replayKey, Skip: opts.Skip})
			}
		})
	}
	var letters []*letter
	var failed error
	for m, err := range mail {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			failed = err
			break
		}
		l := &letter{name: m.Name, time: m.Time, spam: m.Spam, size: len(m.Raw)}
		if l.time.IsZero() && len(letters) > 0 {
			l.time = letters[len(letters)-1].time
		}
		letters = append(letters, l)
		jobs <- job{m.Raw, l}
		opts.Progress("reading", len(letters), 0)
	}
	close(jobs)
	workers.Wait()
	if failed != nil {
		return nil, failed
	}
	for _, l := range letters {
		if l.err != nil {
			return nil, fmt.Errorf("replay: %s: %w", l.name, l.err)
		}
	}
	slices.SortStableFunc(letters, func(a, b *letter) int { return a.time.Compare(b.time) })
	return letters, nil
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
	l.sigs, l.err = signature.Of(ctx, m, opts)
}
