package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Files of the data folder.
const (
	storeFolder    = "store"
	networkKeyFile = "network.key"
	sealKeyFile    = "seal.key"
	adminTokenFile = "admin.token"
)

// dataFolder returns where the node's state lies: the flag, else the
// configuration, else where systemd wants it, else ./bulkhead-data.
func dataFolder(flag, configured string) string {
	if flag != "" {
		return flag
	}
	if configured != "" {
		return configured
	}
	// systemd names several folders with colons between them.
	if dir, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":"); dir != "" {
		return dir
	}
	return "bulkhead-data"
}

// loadKey returns the secret bytes in a file of the data folder. An absent file
// is made with random bytes, unless the folder holds a store already: nothing
// in it could be found with another key.
func loadKey(dir, name string, key []byte) error {
	path := filepath.Join(dir, name)
	text, err := readSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, storeFolder)); err == nil {
			return fmt.Errorf("%s is missing, and what lies in %s cannot be read without it: put it back from a backup",
				path, filepath.Join(dir, storeFolder))
		}
		rand.Read(key)
		return writeSecret(path, hex.EncodeToString(key))
	}
	if err != nil {
		return err
	}
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(key) {
		return fmt.Errorf("%s: want %d hexadecimal digits: put it back from a backup", path, 2*len(key))
	}
	copy(key, raw)
	return nil
}

// readSecret returns the trimmed text of a file that nobody else may read.
func readSecret(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s: mode %04o lets others read it; use chmod 0600 %s", path, info.Mode().Perm(), path)
	}
	if info.Size() > 4096 {
		return "", fmt.Errorf("%s: %d bytes, limit 4096", path, info.Size())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(text)), nil
}

// writeSecret writes a file of mode 0600, durably and at once or not at all.
func writeSecret(path, text string) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(text + "\n")
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
