package member

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Inspect returns the fault of each damaged file of this package in a node's mesh folder, by file
// name. An absent folder has no faults: the node has no peers. It changes nothing.
func Inspect(dir string) map[string]error {
	faults := make(map[string]error)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return faults
	}
	note := func(name string, err error) {
		if err != nil {
			faults[name] = err
		}
	}
	if _, err := os.Stat(filepath.Join(dir, KeyFile)); err != nil {
		note(KeyFile, fmt.Errorf("mesh: %w", err))
	} else if _, err := OpenIdentity(dir); err != nil { // the file exists, so no key is made
		note(KeyFile, err)
	}
	_, err := LoadPeers(dir)
	note(PeersFile, err)
	_, err = LoadState(dir)
	note(StateFile, err)
	_, err = ReadRotation(dir)
	note(RotationFile, err)
	_, err = ReadStruck(dir)
	note(StruckFile, err)
	_, _, err = ReadRecovery(dir)
	note(RecoveryFile, err)
	_, err = ReadInvitations(dir)
	note(InvitationsFile, err)
	return faults
}
