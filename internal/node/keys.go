package node

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/standby"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// Files of the data folder.
const (
	StoreFolder    = "store"
	networkKeyFile = "network.key"
	sealKeyFile    = "seal.key"
	AdminTokenFile = "admin.token"
)

// ownFolder refuses root access to another user's data folder: its owner, as whom the node runs,
// could not read files that root leaves. It also refuses a folder of something else, see [foreign]. A
// missing folder has no owner.
func ownFolder(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "open data folder", Path: dir, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return err
	}
	if err := foreign(dir, info.Mode()); err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 || owner.Uid == 0 {
		return nil
	}
	name := strconv.FormatUint(uint64(owner.Uid), 10)
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	return fmt.Errorf("%s: %w: owned by user %d, who could not read files that root writes there; run this as "+
		"the owner: type \"runuser -u %s --\" before the command",
		dir, store.ErrPermission, owner.Uid, name)
}

// foreign returns an error if a folder is open to other users, and has folders but nothing of a node. A
// node closes its data folder to others, which would break a machine whose /var or / was named.
func foreign(dir string, mode fs.FileMode) error {
	if mode.Perm()&0o077 == 0 {
		return nil
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	other := ""
	for _, entry := range slices.Backward(names) {
		switch name := entry.Name(); name {
		case networkKeyFile, sealKeyFile, AdminTokenFile, StoreFolder, meshFolder, standby.Folder, inventoryFile:
			return nil
		case "lost+found": // of a file system of its own
		default:
			if entry.IsDir() {
				other = name
			}
		}
	}
	if other == "" {
		return nil
	}
	return fmt.Errorf("%s: %w: it is open to other users, and has folders that are of no node, such as %s; name a "+
		"folder of the node's own, which may be missing", dir, store.ErrPermission, other)
}

// lockFolder makes sure that no other process works on a data folder until the lock is released. The lock of
// the store alone is gone when the store is moved away. The error wraps [store.ErrInUse] if another process
// has the lock. Where the file system has no locks on folders, the store's own lock remains.
func lockFolder(dir string) (release func() error, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK) {
		holder := "another process"
		if pid, err := os.ReadFile(filepath.Join(dir, StoreFolder, "LOCK")); err == nil && len(pid) <= 20 {
			holder = "process " + strings.TrimSpace(string(pid))
		}
		return nil, errors.Join(fmt.Errorf("%s: %w by %s", dir, store.ErrInUse, holder), f.Close())
	}
	return f.Close, nil
}

// withFolder calls work on an own data folder while no other process works on it.
func withFolder(dir string, work func() error) (err error) {
	if err := ownFolder(dir); err != nil {
		return err
	}
	release, err := lockFolder(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	return work()
}

// loadKey reads the secret bytes in a file of the data folder into key. A missing file is created
// with random bytes, unless the folder has a store: nothing in the store could be found with
// another key.
func loadKey(dir, name string, key []byte) error {
	path := filepath.Join(dir, name)
	err := ReadKey(path, key)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Join(dir, StoreFolder)); err == nil {
			return missingKey(dir, name, len(key))
		}
		return makeKey(path, key)
	case errors.Is(err, bulkhead.ErrMalformed):
		return fmt.Errorf("%w: put it back from a backup", err)
	}
	return err
}

func missingKey(dir, name string, size int) error {
	path, stored := filepath.Join(dir, name), filepath.Join(dir, StoreFolder)
	if name == sealKeyFile {
		return fmt.Errorf(
			"%s is missing, and the secrets of protocols in %s cannot be read without it: put it back from a backup. "+
				"If there is none, write %d random hexadecimal digits into it (mode 0600), and set those "+
				"secrets again", path, stored, 2*size)
	}
	return fmt.Errorf("%s is missing, and the data in %s cannot be read without it: put it back from a backup", path,
		stored)
}

// makeKey writes a key of random bytes to a file. If another process was faster, it returns that
// process's key.
func makeKey(path string, key []byte) error {
	rand.Read(key)
	text := hex.EncodeToString(key)
	if filepath.Base(path) == sealKeyFile {
		text += " " + keyCheck(key) // otherwise a damaged key looks like another key
	}
	err := wholefile.Create(path, wholefile.Bytes([]byte(text+"\n")))
	if errors.Is(err, fs.ErrExist) {
		return ReadKey(path, key)
	}
	if errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) { // a file system without links
		return writeSecret(path, text)
	}
	return err
}

// keyCheck returns the check that follows a key in its file, so that damage is noticed.
func keyCheck(key []byte) string {
	return fmt.Sprintf("%08x", crc32.Checksum(key, crc32.MakeTable(crc32.Castagnoli)))
}

// ReadSecret returns the trimmed text of a file. The file must not be readable by others.
func ReadSecret(path string) (string, error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		err = &fs.PathError{Op: "read", Path: path, Err: syscall.EISDIR}
	}
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%w: %s: mode %04o lets others read it; use chmod 0600 %s", store.ErrPermission, path,
			info.Mode().Perm(), path)
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

// ReadKey reads a key in hexadecimal from a file, optionally followed by the check of [keyCheck].
// The file must not be readable by others.
func ReadKey(path string, key []byte) error {
	text, err := ReadSecret(path)
	if err != nil {
		return err
	}
	digits, check, checked := strings.Cut(text, " ")
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) != len(key) {
		return fmt.Errorf("%w: %s: want %d hexadecimal digits", bulkhead.ErrMalformed, path, 2*len(key))
	}
	if checked && check != keyCheck(raw) {
		return fmt.Errorf("%w: %s: the key and the check behind it do not belong together", bulkhead.ErrMalformed, path)
	}
	copy(key, raw)
	return nil
}

func writeKey(path string, key []byte) error { return writeSecret(path, hex.EncodeToString(key)) }

// writeSecret writes a line to a file that only the owner can read.
func writeSecret(path, text string) error {
	return wholefile.Replace(path, wholefile.Bytes([]byte(text+"\n")))
}
