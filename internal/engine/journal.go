package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// A journal makes entries durable. After a failure it refuses entries until a recovery has
// succeeded. Only the writer appends; refusing and wakeCheckpoint may be called concurrently.
type journal struct {
	store  *store.Store // nil: nothing is durable
	shared store.Shared // which store is a copy of; nil: there is none
	log    *slog.Logger
	limit  uint64                // bytes from which a checkpoint is requested
	failed atomic.Pointer[error] // why entries are refused; nil while they are accepted
	closed atomic.Pointer[error] // why the node decides nothing, since another node does; nil if it decides
	wake   chan struct{}         // requests a checkpoint

	joining sync.Mutex // held while the shared journal is joined

	index   uint64 // index of the last entry, on a node without a store
	link    uint64 // [store.Position].Link after the last entry; 0: not known. Only the writer uses it once it runs
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
	if j.shared != nil {
		return j.appendShared(entry)
	}
	index, err := j.store.Append(entry)
	if err != nil {
		j.fail("write journal", err)
		return 0, j.refusing()
	}
	j.note(entry)
	return index, nil
}

// appendShared is append with a shared journal. The entry is durable once it is there. If the own copy cannot be
// written, the entry counts nevertheless, and the checkpoint of the recovery will have it.
func (j *journal) appendShared(entry []byte) (uint64, error) {
	at := store.Position{Index: j.store.LastIndex(), Link: j.link}
	index, err := j.shared.Append(entry)
	if err == nil && index != at.Index+1 {
		err = fmt.Errorf("entry %d is entry %d there", at.Index+1, index)
	}
	if err != nil {
		j.fail("append to the shared journal", err)
		return 0, j.refusing()
	}
	if err := j.store.AppendAll([]store.Entry{{Index: index, Data: entry}}); err != nil {
		j.store.SkipTo(index)
		j.fail("write journal", err)
	}
	j.link = at.After(entry).Link
	j.note(entry)
	return index, nil
}

// passed notes an entry that the state has, whoever wrote it.
func (j *journal) passed(index uint64, entry []byte) {
	if j.link != 0 {
		j.link = store.Position{Index: index - 1, Link: j.link}.After(entry).Link
	}
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
		j.log.Error("the journal has failed", "doing", doing, "err", err,
			"consequence", "reports are refused until this is fixed; checks go on")
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
