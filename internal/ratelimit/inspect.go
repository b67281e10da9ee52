package ratelimit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Inspect returns the faults in the files of a folder of states, by file name ("" for the folder
// itself), and how many files were read. It changes nothing. It does not read the states of rules
// that are not given, since it cannot know what they should be. A missing folder has no faults.
func Inspect(dir string, rules []Rule) (faults map[string]error, read int) {
	faults = make(map[string]error)
	names, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return faults, 0
	}
	if err != nil {
		faults[""] = err
		return faults, 0
	}
	var l Limiter
	secret, err := readSmall(filepath.Join(dir, SecretFile), len(l.secret))
	states := false
	for _, n := range names {
		states = states || strings.HasSuffix(n.Name(), stateFile)
	}
	switch {
	case err == nil:
		copy(l.secret[:], secret)
		read++
	case !errors.Is(err, fs.ErrNotExist):
		faults[SecretFile] = err
	case states:
		faults[SecretFile] = fmt.Errorf("%s: %w: no saved state can be found without it", SecretFile, fs.ErrNotExist)
	}
	for _, r := range rules {
		c, err := compile(r, l.secret)
		if err != nil {
			continue // a mistake in the configuration, which is reported elsewhere
		}
		_, _, err = c.read(filepath.Join(dir, r.Name+stateFile), time.Unix(0, 0))
		if err == nil {
			read++
		} else if !errors.Is(err, fs.ErrNotExist) || wasSaved(dir, r.Name) {
			faults[r.Name+stateFile] = err
		}
	}
	return faults, read
}
