// Package letters reads collections of mail on all processors, for the simulations that play
// them.
package letters

import (
	"context"
	"iter"
	"runtime"
	"sync"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// Read makes a letter of each message of a collection. One goroutine calls begin for each, in
// order; finish, with the costly part of the work, runs on all processors. Read returns the
// letters in the order of the messages when the last is finished. The first error of the
// collection, or the end of ctx, ends it.
func Read[M, L any](ctx context.Context, collection iter.Seq2[M, error], begin func(M) L, finish func(context.Context,
	M, L)) ([]L, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type job struct {
		message M
		letter  L
	}
	jobs := make(chan job)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for j := range jobs {
				finish(ctx, j.message, j.letter)
			}
		})
	}
	var all []L
	var failed error
	for m, err := range collection {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			failed = err
			cancel()
			break
		}
		l := begin(m)
		all = append(all, l)
		jobs <- job{m, l}
	}
	close(jobs)
	workers.Wait()
	if failed != nil {
		return nil, failed
	}
	return all, nil
}

// Signed returns the signatures of m and of its sender, or none if they do not distinguish it from
// other messages, so that it cannot be reported.
func Signed(
	ctx context.Context, m *mail.Message, senders []bulkhead.Signature, opts signature.Options,
) ([]bulkhead.Signature, error) {
	sigs, err := signature.Compute(mail.WithMessage(ctx, m), m.Raw, opts)
	if err != nil {
		return nil, err
	}
	sigs = append(sigs, senders...)
	if !bulkhead.Identifies(sigs) {
		return nil, nil
	}
	return sigs, nil
}
