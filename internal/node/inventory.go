package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/audit"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/mesh"
	"github.com/bulkhead-mail/bulkhead/internal/node/doors"
	"github.com/bulkhead-mail/bulkhead/internal/node/manage"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// inventoryFile lists the parts of the data folder that the node has made, one a line. Without it,
// a part that was removed, or lost by a disk, would look like a part that never existed. A second
// line, with missedMark before the name, records that the part was missing at a start, and that no
// start has succeeded since.
const (
	inventoryFile  = "inventory"
	missedMark     = "missing "
	inventoryEvery = time.Minute
	maxInventory   = 4096 // bytes
)

// A keptPart is a file or folder whose loss must be reported: a new node has none.
type keptPart struct {
	path   string // in the data folder
	name   string // of the part, as in examinations
	advice string
}

// keptParts returns all of them, each folder before its contents.
func keptParts() []keptPart {
	const again = "put it back from a copy; else \"bulkhead doctor --repair\", or the next start, begins it anew: "
	return []keptPart{
		{StoreFolder, "store", "restore a backup; a node started without it has no counts"},
		{rateFolder, "ratelimits", again + "the counts of the current periods are lost"},
		{doors.GreylistFile, "greylist", again + "every sender is new, and has to wait once more"},
		{manage.WhitelistFile, "whitelist", again + "its texts are then judged as others"},
		{meshFolder, "mesh", "put it back from a backup: the next start makes another key, which peers must add"},
		{filepath.Join(meshFolder, mesh.PeersFile), "mesh", again + "add the peers again"},
		{filepath.Join(meshFolder, mesh.StateFile), "mesh",
			"put it back from a backup: the next start begins a new incarnation"},
		{manage.WeightsFile, "records", again + "the chart of weights is lost"},
		{historyFile, "history", again + "checks and votes before are not shown, and votes on them stand alone"},
		{manage.SumsFile, "history", again + "the numbers of verdicts before are lost"},
		{audit.File, "records", again + "what administrators did before is not shown"},
		{AdminTokenFile, "keys", "put it back from a copy, or see \"bulkhead user recover\""},
	}
}

// isKept reports whether a path is among [keptParts].
func isKept(path string) bool {
	return slices.ContainsFunc(keptParts(), func(p keptPart) bool { return p.path == path })
}

// readInventory returns the names in the inventory of a data folder. An absent inventory is empty.
func readInventory(dir string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(dir, inventoryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseInventory(b)
}

func parseInventory(b []byte) ([]string, error) {
	if len(b) > maxInventory {
		return nil, fmt.Errorf("%s: %d bytes, limit %d", inventoryFile, len(b), maxInventory)
	}
	names := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	for _, name := range names {
		if !filepath.IsLocal(name) || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c > '~' }) {
			return nil, fmt.Errorf("%s: %.40q is no name of a part", inventoryFile, name)
		}
	}
	return names, nil
}

// knownInventory returns an error if the inventory of a data folder names a part that no version of
// the node makes, or is missing although the node has run.
func knownInventory(dir string) error {
	had, err := readInventory(dir)
	if err != nil {
		return err
	}
	_, ran := os.Stat(filepath.Join(dir, AdminTokenFile))
	if _, err := os.Stat(filepath.Join(dir, inventoryFile)); err != nil && ran == nil {
		return err
	}
	for _, name := range had {
		if name = strings.TrimPrefix(name, missedMark); !isKept(name) {
			return fmt.Errorf("%s: %.40q is no part of a data folder", inventoryFile, name)
		}
	}
	return nil
}

// missingParts returns the parts of a data folder that the node has made and that are missing. The
// contents of a missing folder are not listed separately.
func missingParts(dir string) (missing []keptPart, err error) {
	had, err := readInventory(dir)
	for _, p := range keptParts() {
		if !slices.Contains(had, p.path) || slices.ContainsFunc(missing, func(m keptPart) bool {
			return m.path == filepath.Dir(p.path)
		}) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, p.path)); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, p)
		}
	}
	return missing, err
}

// takeInventory records the present parts. A recorded part that is missing stays recorded, unless
// it, or its folder, is among gone. A name that is no part, as a cut-off file may have, is left out.
// takeInventory also records the parts that this start misses, but not the contents of a missing
// folder.
func takeInventory(dir string, missed, gone []string) error {
	had, err := readInventory(dir)
	if err != nil {
		had = nil // the inventory is made anew from the present parts
	}
	now := slices.DeleteFunc(slices.Clone(had), func(name string) bool {
		name = strings.TrimPrefix(name, missedMark)
		inside := func(folder string) bool { return strings.HasPrefix(name, folder+"/") }
		return !isKept(name) || slices.Contains(gone, name) || slices.ContainsFunc(gone, inside) ||
			slices.ContainsFunc(missed, inside)
	})
	for _, name := range missed {
		if name = missedMark + name; !slices.Contains(now, name) {
			now = append(now, name)
		}
	}
	for _, p := range keptParts() {
		if _, err := os.Lstat(filepath.Join(dir, p.path)); err == nil && !slices.Contains(now, p.path) {
			now = append(now, p.path)
		}
	}
	slices.Sort(now)
	if err == nil && slices.Equal(now, had) || len(now) == 0 {
		return nil
	}
	return wholefile.Replace(filepath.Join(dir, inventoryFile), wholefile.Bytes([]byte(strings.Join(now, "\n")+"\n")))
}

// noticeMissing logs the parts that have gone since the node last ran. The start makes them anew,
// which would hide the loss. A missing part therefore stays recorded until foundMissing.
func (n *core) noticeMissing() {
	missing, err := missingParts(n.dir)
	if err != nil {
		n.log.Warn("inventory of the data folder cannot be read", "err", err,
			"consequence", "missing parts of the folder are not noticed")
	}
	n.missing = nil
	for _, p := range missing {
		n.log.Error("part of the data folder is missing", "file", filepath.Join(n.dir, p.path),
			"consequence", "the node goes on without its contents", "hint", p.advice)
		n.missing = append(n.missing, p.path)
	}
	had, _ := readInventory(n.dir) // missingParts has returned the error
	for _, p := range keptParts() {
		if slices.Contains(had, missedMark+p.path) && !slices.Contains(n.missing, p.path) {
			n.log.Error("part of the data folder was missing at an earlier start, which failed",
				"file", filepath.Join(n.dir, p.path),
				"consequence", "it may be an empty one that the earlier start made", "hint", p.advice)
			n.missing = append(n.missing, p.path)
		}
	}
	n.inventory(n.missing, nil)
}

// foundMissing ends a successful start: the next start does not report the same parts again.
func (n *core) foundMissing() { n.noteParts(n.missing...) }

// noteParts takes the inventory.
func (n *core) noteParts(gone ...string) { n.inventory(nil, gone) }

// inventory is takeInventory, with errors logged. A disk that cannot be written to has louder
// signs.
func (n *core) inventory(missed, gone []string) {
	if err := takeInventory(n.dir, missed, gone); err != nil {
		n.log.Warn("inventory of the data folder cannot be written", "err", err,
			"consequence", "a part that is lost later may go unnoticed")
	}
}

// keepInventory takes the inventory at intervals.
func (n *Node) keepInventory(ctx context.Context) error {
	for range clock.Ticks(ctx, inventoryEvery) {
		n.noteParts()
	}
	return nil
}
