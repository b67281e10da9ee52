package bucket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/shard"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// readEvery is the time between two readings of the map.
const readEvery = 2 * time.Second

// errUnread is the problem until the first answer.
var errUnread = errors.New("the servers have not answered yet")

// A Follower has the latest valid map of a site that it has seen, in memory and in a file. Its methods may be called
// concurrently.
type Follower struct {
	bucket *Bucket
	path   string // of the file
	log    *slog.Logger
	every  time.Duration

	mu      sync.Mutex
	m       *shard.Map // nil: there was none
	read    time.Time  // when the bucket last had a valid map
	problem error      // of the last reading
}

// Follow returns a follower of a bucket, with the map in the file at path, if there is one. A file that cannot be read
// is logged, and has no map. every is the time between two readings of the bucket; 0 means 2 s.
func Follow(b *Bucket, path string, every time.Duration, log *slog.Logger) *Follower {
	if every == 0 {
		every = readEvery
	}
	f := &Follower{bucket: b, path: path, log: log, every: every, problem: errUnread}
	m, err := ReadFile(path)
	switch {
	case err == nil:
		f.m = m
	case !errors.Is(err, fs.ErrNotExist):
		log.Error("the last map of the shards cannot be read", "path", path, "err", err,
			"consequence", "reports wait until the servers of [shards] answer")
	}
	return f
}

// ReadFile reads the file of a follower.
func ReadFile(path string) (*shard.Map, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return shard.Parse(text)
}

// A State is what a follower knows.
type State struct {
	Map     *shard.Map // the one in use; nil: there was none
	Read    time.Time  // when the bucket last had a valid map; zero: never since the start
	Problem error      // why the last reading failed; nil if it did not
}

// State returns what the follower knows.
func (f *Follower) State() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return State{f.m, f.read, f.problem}
}

// Run reads the map again and again, until ctx ends, and calls use for each later one.
func (f *Follower) Run(ctx context.Context, use func(*shard.Map)) {
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	for {
		f.once(ctx, use)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// once reads the map. It calls use for a map that is later than the one before, and notes it then: whoever sees a
// version in the state relies on its use.
func (f *Follower) once(ctx context.Context, use func(*shard.Map)) {
	short, cancel := context.WithTimeout(ctx, 2*readEvery)
	defer cancel()
	m, _, err := f.bucket.Get(short)
	if ctx.Err() != nil {
		return
	}
	before := f.State()
	switch {
	case err != nil:
	case before.Map == nil || m.Note.At.After(before.Map.Note.At):
		if err := wholefile.Replace(f.path, wholefile.Bytes(m.Text())); err != nil {
			f.log.Error("the map of the shards cannot be written", "path", f.path, "err", err,
				"consequence", "the next start begins with an older map")
		}
		f.log.Info("the map of the shards has changed", "version", m.Version, "by", m.Note.By, "change", m.Note.What)
		use(m)
	case m.Note.At.Before(before.Map.Note.At):
		// A server that lags, or one that was put back from a backup.
		err = fmt.Errorf("the servers have version %d of %s, which is older than version %d in use",
			m.Version, m.Note.At.Format(time.DateTime), before.Map.Version)
		m = nil
	default:
		m = nil
	}
	f.note(m, err)
}

// note notes the outcome of a reading, and logs a change of it.
func (f *Follower) note(m *shard.Map, err error) {
	f.mu.Lock()
	had := f.problem
	f.problem = err
	if err == nil {
		f.read = time.Now()
		if m != nil {
			f.m = m
		}
	}
	version := uint64(0)
	if f.m != nil {
		version = f.m.Version
	}
	f.mu.Unlock()
	switch {
	case err != nil && (had == nil || had.Error() != err.Error()):
		f.log.Warn("the map of the shards cannot be read", "err", err, "consequence",
			fmt.Sprintf("the edge goes on with version %d", version))
	case err == nil && had != nil && had != errUnread:
		f.log.Info("the map of the shards is read again", "version", version)
	}
}
