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

// A backup is the file that an [Plan.Apply] leaves for [Undo].
type backup struct {
	Files   []kept
	Folders []string `json:",omitempty"` // created by the changes, each after its parent
	After   []string `json:",omitempty"` // commands that make the programs read their files again
}

// Apply makes all changes or none: if a change fails, the changes before it are undone. It first
// writes a backup, and returns its path in the root. It is an error if a file has changed since the
// plan was made. If there is nothing to change, there is no error and no backup.
func (p *Plan) Apply(now time.Time) (saved string, err error) {
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
	paths := []string{Backups + "/x"}
	for _, c := range p.Changes {
		paths = append(paths, c.Path)
	}
	text, err := json.MarshalIndent(backup{Files: all, Folders: p.tree.missingFolders(paths), After: p.undoAfter()},
		"", " ")
	if err != nil {
		return "", err
	}
	saved = path.Join(Backups, now.UTC().Format("20060102T150405.000000000Z")+".json")
	// The files in the backup may be secret.
	if err := p.tree.write(saved, file{text: string(text), mode: 0o600, uid: -1, gid: -1}); err != nil {
		return "", err
	}
	for i, c := range p.Changes {
		if err := p.tree.write(c.Path, c.is); err != nil {
			return "", errors.Join(err, p.tree.putBack(all[:i]), p.tree.remove(saved))
		}
	}
	return saved, nil
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

// undoAfter returns the commands after which the programs no longer use the changes. Commands that
// need what is gone then are left out.
func (p *Plan) undoAfter() (all []string) {
	for _, command := range p.After {
		name, _, _ := strings.Cut(command, " ")
		made := slices.ContainsFunc(p.Changes, func(c Change) bool {
			return c.Created && strings.HasSuffix(command, " "+c.Path)
		})
		if name != "sievec" && name != "pyzor" && !made {
			all = append(all, command)
		}
	}
	return all
}

// An Undone is what the latest [Plan.Apply] below a root changed.
type Undone struct {
	PutBack []string // files that had other contents before
	Removed []string // files that setup made
	After   []string // commands to run once it is taken back, in order
}

// latest returns the newest backup and its path, or [ErrNoBackup].
func (t *tree) latest() (b backup, name string, err error) {
	names := slices.DeleteFunc(t.list(Backups), func(name string) bool { return !strings.HasSuffix(name, ".json") })
	if len(names) == 0 {
		return b, "", ErrNoBackup
	}
	name = path.Join(Backups, slices.Max(names))
	f, err := t.read(name)
	if err != nil {
		return b, "", err
	}
	if strings.HasPrefix(f.text, "[") { // up to version 0.2 the files alone
		err = json.Unmarshal([]byte(f.text), &b.Files)
	} else {
		err = json.Unmarshal([]byte(f.text), &b)
	}
	if err != nil {
		return b, "", fmt.Errorf("setup: %s: %w", name, err)
	}
	return b, name, nil
}

// Last returns what [Undo] would take back. Without a backup the error is [ErrNoBackup].
func Last(root string) (*Undone, error) {
	t, err := openTree(root)
	if err != nil {
		return nil, err
	}
	defer t.close()
	b, _, err := t.latest()
	if err != nil {
		return nil, err
	}
	u := &Undone{After: b.After}
	for _, k := range b.Files {
		if k.Created {
			u.Removed = append(u.Removed, k.Path)
		} else {
			u.PutBack = append(u.PutBack, k.Path)
		}
	}
	return u, nil
}

// Undo restores what the latest [Plan.Apply] below a root has changed, removes its backup and the
// folders that it made, and returns the paths of the files. If one of them has changed since, it
// restores nothing, and the error names the file. Without a backup the error is [ErrNoBackup].
func Undo(root string) (paths []string, err error) {
	t, err := openTree(root)
	if err != nil {
		return nil, err
	}
	defer t.close()
	b, name, err := t.latest()
	if err != nil {
		return nil, err
	}
	var changed []error
	for _, k := range b.Files {
		is, err := t.read(k.Path)
		if err != nil {
			return nil, err
		}
		if is.text != string(k.After) {
			changed = append(changed, fmt.Errorf("setup: %s was changed since; as it was, it is in %s", k.Path, name))
		}
		paths = append(paths, k.Path)
	}
	if len(changed) > 0 {
		return nil, errors.Join(changed...)
	}
	if err := t.putBack(b.Files); err != nil {
		return nil, err
	}
	for _, k := range b.Files { // what sievec has made of a script
		if compiled, ok := strings.CutSuffix(k.Path, ".sieve"); ok && k.Created && t.exists(compiled+".svbin") {
			if err := t.remove(compiled + ".svbin"); err != nil {
				return nil, err
			}
		}
	}
	if err := t.remove(name); err != nil {
		return nil, err
	}
	for _, folder := range slices.Backward(b.Folders) {
		t.removeEmpty(folder)
	}
	return paths, nil
}

// missingFolders returns the parent folders of paths that do not exist, each after its parent.
func (t *tree) missingFolders(paths []string) (all []string) {
	for _, name := range paths {
		var missing []string
		for dir := path.Dir(name); dir != "/" && !t.exists(dir); dir = path.Dir(dir) {
			missing = append(missing, dir)
		}
		for _, dir := range slices.Backward(missing) {
			if !slices.Contains(all, dir) {
				all = append(all, dir)
			}
		}
	}
	return all
}

// removeEmpty removes a folder, unless it holds files of others.
func (t *tree) removeEmpty(folder string) {
	if at, err := t.resolve(folder); err == nil {
		t.root.Remove(at) // fails if it is not empty
	}
}
