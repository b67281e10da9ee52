package mesh

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Inspect returns what is wrong with each file of a node's mesh folder, by its name.
// A folder that is not there is that of a node without peers. It changes nothing.
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
	} else if _, err := OpenIdentity(dir); err != nil { // it exists: none is made
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

// readHeard reads what peers said last; an absent file is empty.
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
