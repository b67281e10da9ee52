package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// A journal makes entries durable. After a failure it refuses entries until a recovery has
// succeeded. Only the writer appends; refusing and wakeCheckpoint may be called concurrently.
type journal struct {
	store  store.Journal // nil: nothing is durable
	log    *slog.Logger
	limit  uint64                // bytes from which a checkpoint is requested
	failed atomic.Pointer[error] // why entries are refused; nil while they are accepted
	closed atomic.Pointer[error] // why the node decides nothing, since another node does; nil if it decides
	wake   chan struct{}         // requests a checkpoint

	index   uint64 // index of the last entry, on a node without a store
	bytes   uint64 // since the last checkpoint
	entries atomic.Uint64
}

// append makes an entry durable and returns its index. On an error the node is read-only until a
// recovery has succeeded.
func (j *journal) append(entry []byte) (uint64, error) {
	if j.store == nil {
		j.index++
		return j.index, nil
	}
	if err := j.refusing(); err != nil {
		return 0, err
	}
	index, err := j.store.Append(entry)
	if err != nil {
		j.fail("write journal", err)
		return 0, j.refusing()
	}
	j.note(entry)
	return index, nil
}

// note counts an entry that was written.
func (j *journal) note(entry []byte) {
	j.entries.Add(1)
	j.bytes += uint64(len(entry))
	if j.bytes >= j.limit {
		j.wakeCheckpoint()
	}
}

// watch fails the journal if the store has failed: with relaxed durability, the store syncs on its
// own.
func (j *journal) watch() {
	if j.store == nil || j.failure() != nil {
		return
	}
	if err := j.store.Err(); errors.Is(err, store.ErrFailed) {
		j.fail("sync journal", err)
	}
}

// fail makes the node read-only and wakes the goroutine that recovers it.
func (j *journal) fail(doing string, err error) {
	reason := fmt.Errorf("%w: %s: %v", bulkhead.ErrReadOnly, doing, err)
	if j.failed.Swap(&reason) == nil {
		j.log.Error("reports are refused until this is fixed; checks go on", "doing", doing, "err", err)
	}
	j.wakeCheckpoint()
}

// refusing returns why reports are refused, or nil.
func (j *journal) refusing() error {
	if err := j.failure(); err != nil {
		return err
	}
	if p := j.closed.Load(); p != nil {
		return *p
	}
	return nil
}

// failure returns why nothing can be written, or nil.
func (j *journal) failure() error {
	if p := j.failed.Load(); p != nil {
		return *p
	}
	return nil
}

func (j *journal) wakeCheckpoint() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}
