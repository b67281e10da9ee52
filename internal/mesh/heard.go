package mesh

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// heardFile keeps the last messages of peers across a restart.
const heardFile = "heard.json"

// A heard is stored for each peer in addition to its counts: when its last message arrived, and its
// signed newest head, or the signed message that began its newest incarnation.
type heard struct {
	Key  string    `json:"key"`
	At   time.Time `json:"at"`
	Head []byte    `json:"head,omitempty"`
}

// loadHeard reads the stored messages. An absent or damaged file is treated as empty: no counts are
// lost with it.
func (r *receiver) loadHeard() error {
	list, err := readHeard(r.opts.Dir)
	var path *fs.PathError
	if errors.As(err, &path) {
		return err
	}
	if err != nil {
		r.opts.Log.Warn("last messages of peers not read", "file", heardFile, "err", err)
		return nil
	}
	for _, h := range list {
		key, err := wire.ParsePublic(h.Key)
		if err != nil {
			continue
		}
		if _, ok := r.book.find(key.Hint()); !ok {
			continue
		}
		r.book.figures(key.Hint(), func(s *stats) { s.lastHeard = h.At })
		if e, err := wire.OpenStatement(h.Head); err == nil && e.SignedBy(key) {
			r.track(key.Hint()).said.Head = h.Head
		}
	}
	return nil
}

// saveHeard writes the last messages of peers. It runs on the receiver's goroutine, or after that
// has ended.
func (r *receiver) saveHeard() error {
	list := []heard{}
	for _, p := range r.book.peerList() {
		x := heard{Key: p.ID}
		r.book.figures(p.key.Hint(), func(s *stats) { x.At = s.lastHeard.UTC() })
		if t := r.origins[p.key.Hint()]; t != nil {
			x.Head = t.said.Head
		}
		list = append(list, x)
	}
	data, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("mesh: %w", err)
	}
	return writeFile(filepath.Join(r.opts.Dir, heardFile), data)
}
