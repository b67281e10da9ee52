package member

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// RecoveryFile exists while a node takes back from its peers what it has shared: its store was lost.
const RecoveryFile = "recovery.json"

// FullWeight is the weight from which a peer is asked without the administrator's word: it may list
// anything alone.
const FullWeight = 1

// A Recovery is the content of that file.
type Recovery struct {
	All bool `json:"all,omitempty"` // ask peers of any weight
	// The starts of the generations that were opened for counts of peers, in Unix seconds. The node
	// itself counts in none of them.
	Tally []uint64 `json:"tally,omitempty"`
	Block []uint64 `json:"blocklist,omitempty"`
}

// ReadRecovery reads the file in a mesh folder, and reports whether there is one.
func ReadRecovery(dir string) (r Recovery, wanted bool, err error) {
	path := filepath.Join(dir, RecoveryFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err := wholefile.ReadJSON(path, &r); err != nil {
		return r, false, fmt.Errorf("mesh: %w", err)
	}
	return r, true, nil
}

// Save writes the file to a mesh folder.
func (r *Recovery) Save(dir string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("mesh: %w", err)
	}
	return WriteFile(filepath.Join(dir, RecoveryFile), data)
}

// WantRecovery makes a node with the mesh folder dir take back what its peers hold of it, at its next
// start, and returns how many peers will be asked. all asks peers of any weight; otherwise only peers
// of weight 1 are asked.
func WantRecovery(dir string, all bool) (peers int, err error) {
	r, _, err := ReadRecovery(dir)
	if err != nil {
		return 0, err
	}
	list, err := LoadPeers(dir)
	if err != nil {
		return 0, err
	}
	r.All = r.All || all
	for _, p := range list {
		if r.All || p.Weight >= FullWeight {
			peers++
		}
	}
	return peers, r.Save(dir)
}

// ForgetRecovery removes the file.
func ForgetRecovery(dir string) error { return remove(dir, RecoveryFile) }
