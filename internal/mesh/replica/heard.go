package replica

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// HeardFile keeps the last messages of peers across a restart.
const HeardFile = "heard.json"

// A Heard is stored for each peer in addition to its counts: when its last message arrived, and its
// signed newest head, or the signed message that began its newest incarnation.
type Heard struct {
	Key  string    `json:"key"`
	At   time.Time `json:"at"`
	Head []byte    `json:"head,omitempty"`
}

// Load reads the stored messages. An absent or damaged file is treated as empty: no counts are
// lost with it.
func (r *Receiver) Load() error {
	list, err := ReadHeard(r.opts.Dir)
	var path *fs.PathError
	if errors.As(err, &path) {
		return err
	}
	if err != nil {
		r.opts.Log.Warn("last messages of peers not read", "file", HeardFile, "err", err)
		return nil
	}
	for _, h := range list {
		key, err := wire.ParsePublic(h.Key)
		if err != nil {
			continue
		}
		if _, ok := r.book.Find(key.Hint()); !ok {
			continue
		}
		r.book.Figures(key.Hint(), func(s *member.Stats) { s.LastHeard = h.At })
		if e, err := wire.OpenStatement(h.Head); err == nil && e.SignedBy(key) {
			r.origin(key.Hint()).evidence.Head = h.Head
		}
	}
	return nil
}

// Save writes the last messages of peers. It runs on the receiver's goroutine, or after that
// has ended.
func (r *Receiver) Save() error {
	list := []Heard{}
	for _, p := range r.book.List() {
		x := Heard{Key: p.ID}
		r.book.Figures(p.Key.Hint(), func(s *member.Stats) { x.At = s.LastHeard.UTC() })
		if t := r.origins[p.Key.Hint()]; t != nil {
			x.Head = t.evidence.Head
		}
		list = append(list, x)
	}
	data, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("mesh: %w", err)
	}
	return member.WriteFile(filepath.Join(r.opts.Dir, HeardFile), data)
}

// ReadHeard reads the stored last messages of peers; an absent file is empty.
func ReadHeard(dir string) ([]Heard, error) {
	data, err := os.ReadFile(filepath.Join(dir, HeardFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("mesh: %w", err)
	}
	var list []Heard
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("mesh: %s: %w", HeardFile, err)
	}
	return list, nil
}
