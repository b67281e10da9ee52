package mesh

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Inspect returns the fault of each damaged file in a node's mesh folder, by file name. An absent
// folder has no faults: the node has no peers. Inspect changes nothing.
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
	if _, err := os.Stat(filepath.Join(dir, keyFile)); err != nil {
		note(keyFile, fmt.Errorf("mesh: %w", err))
	} else if _, err := OpenIdentity(dir); err != nil { // the file exists, so no key is made
		note(keyFile, err)
	}
	_, err := loadPeers(dir)
	note(PeersFile, err)
	_, err = loadState(dir)
	note(stateFile, err)
	_, err = readHeard(dir)
	note(heardFile, err)
	_, err = readRotation(dir)
	note(rotationFile, err)
	_, err = readStruck(dir)
	note(struckFile, err)
	_, err = readInvitations(dir)
	note(invitationsFile, err)
	return faults
}

// readHeard reads the stored last messages of peers; an absent file is empty.
func readHeard(dir string) ([]heard, error) {
	data, err := os.ReadFile(filepath.Join(dir, heardFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("mesh: %w", err)
	}
	var list []heard
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("mesh: %s: %w", heardFile, err)
	}
	return list, nil
}
