package setup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// Backups is the folder, in the root, for backups of changed files.
const Backups = "/var/backups/bulkhead-setup"

// ErrNoBackup is the error if there is nothing to undo.
var ErrNoBackup = errors.New("setup: no backup is left")

// A kept is one file of a backup.
type kept struct {
	Path    string
	Created bool        `json:",omitempty"` // the file did not exist
	Before  []byte      `json:",omitempty"` // bytes: a configuration need not be UTF-8
	After   []byte      // new contents
	Mode    fs.FileMode `json:",omitempty"`
	UID     int
	GID     int
}

// Apply makes all changes or none: if a change fails, the changes before it are undone. It first
// writes a backup, and returns its path in the root. It is an error if a file has changed since the
// plan was made. If there is nothing to change, there is no error and no backup.
func (p *Plan) Apply(now time.Time) (backup string, err error) {
	if len(p.Changes) == 0 {
		return "", nil
	}
	var all []kept
	for _, c := range p.Changes {
		f, err := p.tree.read(c.Path)
		if err != nil {
			return "", err
		}
		if f.text != c.Old || f.exists == c.Created {
			return "", fmt.Errorf("setup: %s was changed just now; look again", c.Path)
		}
		all = append(all, kept{Path: c.Path, Created: c.Created, Before: []byte(c.Old), After: []byte(c.New),
			Mode: c.was.mode, UID: c.was.uid, GID: c.was.gid})
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return "", err
	}
	backup = path.Join(Backups, now.UTC().Format("20060102T150405.000000000Z")+".json")
	// The files in the backup may be secret.
	if err := p.tree.write(backup, file{text: string(text), mode: 0o600, uid: -1, gid: -1}); err != nil {
		return "", err
	}
	for i, c := range p.Changes {
		if err := p.tree.write(c.Path, c.is); err != nil {
			return "", errors.Join(err, p.tree.putBack(all[:i]), p.tree.remove(backup))
		}
	}
	return backup, nil
}

// putBack restores files, the last one first.
func (t *tree) putBack(all []kept) error {
	var errs []error
	for _, k := range slices.Backward(all) {
		if k.Created {
			errs = append(errs, t.remove(k.Path))
			continue
		}
		errs = append(errs, t.write(k.Path, file{text: string(k.Before), mode: k.Mode, uid: k.UID, gid: k.GID}))
	}
	return errors.Join(errs...)
}

// Undo restores what the latest [Plan.Apply] below a root has changed, removes its backup,
// and returns the paths of the files. If one of them has changed since, it restores nothing,
// and the error names the file. Without a backup the error is [ErrNoBackup].
func Undo(root string) (paths []string, err error) {
	t, err := openTree(root)
	if err != nil {
		return nil, err
	}
	defer t.close()
	backups := slices.DeleteFunc(t.list(Backups), func(name string) bool { return !strings.HasSuffix(name, ".json") })
	if len(backups) == 0 {
		return nil, ErrNoBackup
	}
	latest := path.Join(Backups, slices.Max(backups))
	f, err := t.read(latest)
	if err != nil {
		return nil, err
	}
	var all []kept
	if err := json.Unmarshal([]byte(f.text), &all); err != nil {
		return nil, fmt.Errorf("setup: %s: %w", latest, err)
	}
	var changed []error
	for _, k := range all {
		is, err := t.read(k.Path)
		if err != nil {
			return nil, err
		}
		if is.text != string(k.After) {
			changed = append(changed, fmt.Errorf("setup: %s was changed since; as it was, it is in %s", k.Path, latest))
		}
		paths = append(paths, k.Path)
	}
	if len(changed) > 0 {
		return nil, errors.Join(changed...)
	}
	if err := t.putBack(all); err != nil {
		return nil, err
	}
	return paths, t.remove(latest)
}
